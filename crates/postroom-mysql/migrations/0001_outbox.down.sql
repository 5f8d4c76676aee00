drop procedure if exists postroom_emit;
drop table if exists postroom_outbox_signal;
drop table if exists postroom_outbox_cursor;
drop table if exists postroom_sequencer;
drop table if exists postroom_outbox;
drop table if exists postroom_incoming;
