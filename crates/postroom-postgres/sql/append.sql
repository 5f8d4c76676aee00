-- Rows are numbered in the order of the arrays: defaults are computed above the sort. Without `order by` there is none.
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
select
    e.event_id,
    e.event_type,
    e.source,
    e.aggregate_type,
    e.aggregate_id,
    e.payload::jsonb,
    e.headers::jsonb,
    e.occurred_at
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
    with ordinality as e (
        event_id,
        event_type,
        source,
        aggregate_type,
        aggregate_id,
        payload,
        headers,
        occurred_at,
        place
    )
order by e.place
