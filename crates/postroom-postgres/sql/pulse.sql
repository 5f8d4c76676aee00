-- One tick, if something can have become readable, and what else a relay wants to know; one statement, autocommit, READ
-- COMMITTED, from any process and any number of them, without a lock or a leader. It scans nothing, and when there is
-- nothing new it writes nothing and burns no xid. No parameters: so its plan is kept, whatever plan_cache_mode says.
--
-- The order of events that every bound below stands on: (1) the snapshot is taken, (2) hi is read, (3) this transaction
-- gets its own xid. It holds here although the insert is a CTE:
--   1 before 2: a statement's snapshot is taken before its executor starts, and pg_current_snapshot() is that snapshot;
--     the sequence is volatile, so it is read when `state` is computed, not when the statement is planned.
--   2 before 3: nothing but storing a row gives a transaction an xid, and the only row stored is made from `due`, which
--     is made from `state`. A data-modifying CTE has no head start: it pulls its input first. The guard in `due` sees
--     that no xid was there before (inside a transaction that has written, that transaction's own rows would be lost).
--
-- Why the windows are exact. Call the tick that is taken k, its snapshot S(k), its own xid X(k).
--   Chain. `past` is read in S(k), so S(k) sees tick k - 1; a rival gets a conflict on n. Snapshots of one primary are
--     ordered by inclusion, so a committed xid has exactly one first tick that sees it: nothing is lost or comes twice,
--     however windows are cut. A prepared transaction stays in progress until COMMIT PREPARED.
--   hi. A row that S(k) sees drew its number before S(k), hi is read after it. Read by pg_sequence_last_value, under
--     the lock: a plain select from the sequence can see a value 32 too high, which as a lower bound loses rows
--     (measured).
--   lo, floor. S(t) sees tick t - 1, so X(t-1) < xmax(S(t)). An xid >= xmax(S(t)) was given out after X(t-1), and that
--     after hi(t-1) was read; its numbers are drawn later still (tx stands before id): all above hi(t-1). So, for an
--     xid x, take the newest tick t with xmax(S(t)) <= x, and hi(t-1) is below everything x and its followers write.
--     For lo, x is the smallest xid of the window: xmax(S(k-1)), or one that was in progress then and is not now. For
--     floor it is xmin(S(k)). What was at or below floor(k-1) is seen by S(k-1) already, which bounds both from below.
--   Keys. If writers of a key are serialised by a lock they take before they emit, every snapshot that sees the second
--     event sees the first, and the second number is larger: an earlier window, or the same and a lower id.
-- A tick commits after all it shows (synchronous_commit = on), so what a relay delivers cannot vanish in a crash.
with past as materialized (
    select
        n,
        era,
        snapshot,
        hi,
        floor,
        at
    from postroom.outbox_tick
    order by n desc
    limit 1
),
state as materialized (
    select
        pg_current_snapshot() as snapshot,
        coalesce(pg_sequence_last_value('postroom.outbox_id_seq'), 0) as hi,
        extract(epoch from clock_timestamp() - p.at)::float8 * 1000 as age_ms,
        -- Xids of another cluster would be taken for old ones and never be seen: no tick until rebase.sql has run.
        pg_snapshot_xmax(p.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
            and exists (
                select
                from postroom.outbox_cluster c
                where c.id = 1
                    and c.system_identifier = (select system_identifier from pg_control_system())
                    and c.database_oid = (select oid::bigint from pg_database where datname = current_database())
            ) as is_home
    from past p
),
due as materialized (
    select
        p.n + 1 as n,
        p.era,
        s.snapshot,
        greatest(p.floor, (
            select b.hi
            from postroom.outbox_tick b
            where b.n < (
                select t.n
                from postroom.outbox_tick t
                where t.era = p.era
                    and pg_snapshot_xmax(t.snapshot) <= least(
                        pg_snapshot_xmax(p.snapshot),
                        (
                            select x
                            from pg_snapshot_xip(p.snapshot) x
                            where pg_visible_in_snapshot(x, s.snapshot)
                            order by x
                            limit 1
                        )
                    )
                order by pg_snapshot_xmax(t.snapshot) desc
                limit 1
            )
            order by b.n desc
            limit 1
        )) as lo,
        s.hi,
        greatest(p.floor, (
            select b.hi
            from postroom.outbox_tick b
            where b.n < (
                select t.n
                from postroom.outbox_tick t
                where t.era = p.era
                    and pg_snapshot_xmax(t.snapshot) <= pg_snapshot_xmin(s.snapshot)
                order by pg_snapshot_xmax(t.snapshot) desc
                limit 1
            )
            order by b.n desc
            limit 1
        )) as floor,
        -- At most 200 ticks a second, each of them an xid. A clock that was set back does not stop them.
        case when s.age_ms >= 0 and s.age_ms < 5 then 5 - s.age_ms end as wait_ms
    from past p,
        state s
    where pg_current_xact_id_if_assigned() is null
        and s.is_home
        -- Numbers were drawn since, or a transaction may still hold older ones.
        and (s.hi > p.hi or p.floor < p.hi)
        -- Something ended besides the previous tick itself: as many xids are over as lie below xmax, less those in
        -- progress.
        and (
            pg_snapshot_xmax(s.snapshot)::text::bigint
            - (select count(*) from pg_snapshot_xip(s.snapshot))
            - pg_snapshot_xmax(p.snapshot)::text::bigint
            + (select count(*) from pg_snapshot_xip(p.snapshot))
        ) > 1
),
tick as (
    insert into postroom.outbox_tick (n, era, snapshot, lo, hi, floor)
    select
        n,
        era,
        snapshot,
        lo,
        hi,
        floor
    from due
    where wait_ms is null
    on conflict (n) do nothing
)
select
    -- After a conflict too: then a rival has committed the tick of this number.
    coalesce((select n from due where wait_ms is null), p.n) as head,
    (select wait_ms from due) as wait_ms,
    s.is_home,
    (select extract(epoch from min(due_at) - clock_timestamp())::float8 from postroom.outbox_scheduled) as due_in_s,
    (select version from postroom.outbox_signal where id = 1) as signal
from past p,
    state s
