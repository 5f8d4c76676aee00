drop table if exists postroom_outbox_down;
