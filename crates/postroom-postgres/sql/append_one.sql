-- One event, as most transactions emit: half the work for the server of the same through arrays.
insert into postroom.outbox (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at
)
values (
    $1,
    $2,
    $3,
    $4,
    $5,
    $6::text::jsonb,
    $7::text::jsonb,
    $8
)
