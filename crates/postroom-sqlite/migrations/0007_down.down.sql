drop table postroom_outbox_down;
