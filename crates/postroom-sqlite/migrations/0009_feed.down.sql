alter table postroom_outbox_cursor drop column handled_to;
alter table postroom_outbox_cursor drop column fed_by;
