alter table postroom.outbox_down drop column probe_at;
