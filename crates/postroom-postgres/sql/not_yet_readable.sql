-- Committed rows that the newest tick does not show, in order of id; they become readable when a relay takes the next tick.
-- What lies at or below `floor` is shown by it for certain. Only the last 100,000 numbers are looked at.
select
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload::text as payload,
    headers::text as headers,
    occurred_at,
    created_at
from (
    select o.*, t.snapshot
    from (select floor, snapshot::text::pg_snapshot as snapshot from postroom.outbox_tick order by n desc limit 1) t,
        postroom.outbox o
    where o.id > t.floor
    order by o.id desc
    limit 100000
) o
where not pg_visible_in_snapshot(o.tx, o.snapshot)
order by id
limit $1
