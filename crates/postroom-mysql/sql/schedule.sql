-- A relay moves the event into the outbox when its time has come.
insert into postroom_outbox_scheduled (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    due_at
)
values (
    ?, ?, ?, ?, ?, ?, ?, ?, ?
)
