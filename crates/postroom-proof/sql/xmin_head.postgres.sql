-- Behind every transaction that can no longer be preceded by a running one.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as head
