-- The twin that disorders: it waits until every older transaction has ended, so it loses nothing; but a transaction
-- may draw its id early (a write elsewhere) and touch an aggregate late, after a younger one has committed on it.
select
  tx::text::bigint as tx,
  id,
  event_id::text as event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload::text as payload,
  headers::text as headers,
  (extract(epoch from occurred_at) * 1000000)::bigint as occurred_us,
  (extract(epoch from created_at) * 1000000)::bigint as created_us
from postroom.outbox
where (tx, id) > ($1::text::xid8, $2)
  and tx < pg_snapshot_xmin(pg_current_snapshot())
order by tx, id
limit $3
