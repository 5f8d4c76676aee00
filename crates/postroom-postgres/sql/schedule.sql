-- A relay moves the event into the outbox when its time has come.
insert into postroom.outbox_scheduled (
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
    $1,
    $2,
    $3,
    $4,
    $5,
    $6::text::jsonb,
    $7::text::jsonb,
    $8,
    $9
)
