drop function postroom.handled(json);
drop index postroom.outbox_failed_event;
drop index postroom.outbox_parked_event;
