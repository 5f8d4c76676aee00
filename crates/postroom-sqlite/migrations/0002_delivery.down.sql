drop table postroom_outbox_replay;
drop table postroom_event_handled;
drop table postroom_outbox_failed;
drop table postroom_outbox_parked;
