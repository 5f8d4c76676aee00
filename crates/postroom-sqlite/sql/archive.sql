-- Except those whose header forbids it.
insert into postroom_audit_events (
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    created_at
)
select
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    created_at
from postroom_outbox
where id <= ?1
    and coalesce(json_extract(headers, '$.postroomarchive'), '') <> 'never'
