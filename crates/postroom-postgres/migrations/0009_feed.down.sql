alter table postroom.outbox_cursor
    drop column handled_to,
    drop column fed_by;
