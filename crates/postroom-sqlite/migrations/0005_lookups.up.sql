-- Where an event waits, and its dead letters.
create index if not exists postroom_outbox_parked_event on postroom_outbox_parked (event_id);
create index if not exists postroom_outbox_failed_event on postroom_outbox_failed (event_id);
