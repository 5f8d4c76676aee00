drop table postroom.outbox_down;
