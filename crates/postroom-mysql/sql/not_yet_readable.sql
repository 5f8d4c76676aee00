-- Committed rows that wait for their number, in the order in which they were written.
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
from postroom_incoming
order by id
limit ?
