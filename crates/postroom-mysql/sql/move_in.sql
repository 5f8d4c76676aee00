-- Numbers the chosen rows, in the order of the array. The key is forced: statistics of a table that is mostly empty
-- lead to a scan of the whole backlog otherwise. At read committed the source is read without locks.
insert into postroom_outbox (
  id,
  incoming_id,
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
  cast(? as signed) + p.n,
  i.id,
  i.event_id,
  i.event_type,
  i.source,
  i.aggregate_type,
  i.aggregate_id,
  i.payload,
  i.headers,
  i.occurred_at,
  i.created_at
from json_table(?, '$[*]' columns (n for ordinality, id bigint path '$')) as p
straight_join postroom_incoming as i force index (primary) on i.id = p.id
