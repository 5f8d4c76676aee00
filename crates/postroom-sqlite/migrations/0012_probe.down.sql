alter table postroom_outbox_down drop column probe_at;
