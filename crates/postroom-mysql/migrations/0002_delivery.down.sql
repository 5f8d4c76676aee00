drop table if exists postroom_outbox_replay;
drop table if exists postroom_event_handled;
drop table if exists postroom_outbox_failed;
drop table if exists postroom_outbox_parked;
