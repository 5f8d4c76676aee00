-- One process re-bases; the row lock makes others wait, and then find that it fits again.
select
    pg_snapshot_xmax(t.snapshot) > pg_snapshot_xmax(pg_current_snapshot())
    or c.system_identifier <> (select system_identifier from pg_control_system())
    or c.database_oid <> (select oid::bigint from pg_database where datname = current_database()) as is_foreign
from postroom.outbox_cluster c,
    (select snapshot from postroom.outbox_tick order by n desc limit 1) t
where c.id = 1
for update of c
