drop table postroom.outbox_replay;
drop function postroom.handled(json);
drop table postroom.event_handled;
drop table postroom.outbox_failed;
drop table postroom.outbox_parked;
