drop table postroom.outbox_replay;
drop table postroom.event_handled;
drop table postroom.outbox_failed;
drop table postroom.outbox_parked;
