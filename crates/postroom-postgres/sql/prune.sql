-- Removes up to $2 of the oldest rows above $1 that are $3 seconds old and that every cursor has passed; copies them
-- into the archive if $4 and their header allows it. Deleting takes row locks only, no writer waits.
--
-- What every cursor has passed is what the slowest one's tick sees: snapshots are ordered by inclusion, so one tick
-- speaks for all. Without a cursor nothing has been passed. Up to floor that holds for every row that can ever appear;
-- between floor and hi the row's own tx decides, and tells the truth there (rows from before a restore lie below
-- floor). A running replay still reads what is above its next_id.
--
-- Only the oldest rows are looked at, in order of id, so a table full of young rows costs nothing and needs no index on
-- created_at. `low` is where the next call may start: everything at or below it is gone, and nothing can appear there
-- any more. That spares a walk over dead rows that vacuum may not yet remove.
with slowest as materialized (
    select
        t.snapshot::text::pg_snapshot as snapshot,
        t.hi,
        t.floor
    from postroom.outbox_tick t
    where t.n = (
        select min(least(split_part(position, ':', 1)::bigint, split_part(handled_to, ':', 1)::bigint))
        from postroom.outbox_cursor
    )
),
oldest as materialized (
    select
        o.id,
        o.id <= s.hi
            and (o.id <= s.floor or pg_visible_in_snapshot(o.tx, s.snapshot))
            and o.id <= coalesce(
                (select min(next_id) from postroom.outbox_replay where state = 'running'),
                9223372036854775807
            )
            and o.created_at <= clock_timestamp() - $3::float8 * interval '1 second' as is_over,
        s.floor
    from slowest s,
        lateral (
            select
                id,
                tx,
                created_at
            from postroom.outbox
            where id > $1
            order by id
            limit $2
        ) o
),
removed as (
    delete from postroom.outbox
    where id in (select id from oldest where is_over)
    returning *
),
archived as (
    insert into postroom.audit_events (
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
    from removed
    where $4 and headers ->> 'postroomarchive' is distinct from 'never'
)
select
    (select count(*) from removed) as removed,
    least(
        min(floor),
        coalesce(min(id) filter (where not is_over) - 1, max(id))
    ) as low
from oldest
