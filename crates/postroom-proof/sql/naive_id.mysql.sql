-- The twin that loses: AUTO_INCREMENT is drawn before the row is written and long before it is committed. It reads
-- where writers insert, as every outbox without a sequencer does; so the store's own sequencer must be off.
select
  id,
  event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload,
  headers,
  timestampdiff(microsecond, '1970-01-01', occurred_at) as occurred_us,
  timestampdiff(microsecond, '1970-01-01', created_at) as created_us
from postroom_incoming
where id > ?
order by id
limit ?
