-- The database was restored or copied to another cluster: xids started again, old snapshots say nothing about new rows.
-- Four ticks lead every cursor over, without touching a row or a cursor. 9223372036854775807 as xmax sees everything, 1
-- nothing.
--   +1 ends the old era: what the last tick did not see, up to its hi.
--   +2 and +3: everything above that hi, whatever its tx.
--   +4 begins a new era with an empty snapshot above every number drawn so far.
-- A cursor steps from +1 to +2 and from +3 to +4 without reading: another era.
with past as materialized (
    select
        n,
        era,
        hi,
        floor,
        greatest(hi, coalesce(pg_sequence_last_value('postroom.outbox_id_seq'), 0)) as top
    from postroom.outbox_tick
    order by n desc
    limit 1
),
ticks as (
    insert into postroom.outbox_tick (n, era, snapshot, lo, hi, floor)
    select n + 1, era, '9223372036854775807:9223372036854775807:'::pg_snapshot, floor, hi, hi from past
    union all
    select n + 2, era + 1, '1:1:'::pg_snapshot, hi, hi, hi from past
    union all
    select n + 3, era + 1, '9223372036854775807:9223372036854775807:'::pg_snapshot, hi, top, top from past
    union all
    select n + 4, era + 2, '1:1:'::pg_snapshot, top, top, top from past
)
update postroom.outbox_cluster
set
    system_identifier = (select system_identifier from pg_control_system()),
    database_oid = (select oid::bigint from pg_database where datname = current_database())
where id = 1
