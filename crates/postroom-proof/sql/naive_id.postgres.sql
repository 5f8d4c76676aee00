-- The twin that loses: an id is drawn long before its transaction commits, and this cursor is past it by then.
select
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
where id > $1
order by id
limit $2
