-- How many entries lie ahead of a position ($1 = its tick, $2 = the last id taken inside its window). Writes nothing, and
-- scans no history.
--   new: numbers above the tick's, up to the newest that is committed, whether a tick shows it yet or not; those of
--     transactions that rolled back are counted too. From the start only what retention has left; nobody else asks for the
--     lowest number, which may lie behind many dead rows.
--   late: rows with numbers at or below the tick's that its snapshot does not see: their transactions committed after it.
--     The next ticks say in `lo` how far down they may lie. If no relay has taken a tick for a second, `floor` of the newest
--     tick does. Only the last 100,000 numbers of that range are looked at.
-- No row: the position's tick is gone.
with tick as materialized (
    select n, era, snapshot::text::pg_snapshot as snapshot, hi
    from postroom.outbox_tick
    where n = $1
),
newest as materialized (
    select
        n,
        era,
        hi,
        case when clock_timestamp() - at > interval '1 second' then floor else hi end as low
    from postroom.outbox_tick
    order by n desc
    limit 1
),
ahead as materialized (
    select
        greatest(b.hi, (select id from postroom.outbox order by id desc limit 1)) as hi,
        least(b.low, (
            select min(lo)
            from (select lo from postroom.outbox_tick where n > $1 order by n limit 10000) t
        )) as low
    from newest b
)
select
    greatest(
        0,
        h.hi - greatest(
            a.hi,
            $2,
            case when a.n = 0 then (select id - 1 from postroom.outbox order by id limit 1) end
        )
    )
    + case
        -- Snapshots of two eras cannot be compared.
        when a.era = b.era then (
            select count(*)
            from (
                select tx
                from postroom.outbox
                where id > greatest(h.low, $2)
                    and id <= a.hi
                order by id desc
                limit 100000
            ) o
            where not pg_visible_in_snapshot(o.tx, a.snapshot)
        )
        else 0
    end
from tick a,
    newest b,
    ahead h
