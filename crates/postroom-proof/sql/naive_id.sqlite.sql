-- No twin here: with one writer at a time, ids are drawn in commit order. The checker must stay silent.
select
  id,
  event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload,
  headers,
  cast(round(1000000 * unixepoch(occurred_at, 'subsec')) as integer) as occurred_us,
  cast(round(1000000 * unixepoch(created_at, 'subsec')) as integer) as created_us
from postroom_outbox
where id > ?
order by id
limit ?
