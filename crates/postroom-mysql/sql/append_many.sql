-- Many events as one parameter. Payload and headers travel as JSON strings, not as JSON, so their text is kept byte
-- for byte. Character sets are named, because a column of json_table otherwise has the database's, perhaps latin1.
-- Ordered: the ids follow the order of the array, which is the order of emitting.
insert into postroom_incoming (
  event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload,
  headers,
  occurred_at
)
select
  e.event_id,
  e.event_type,
  e.source,
  e.aggregate_type,
  e.aggregate_id,
  e.payload,
  e.headers,
  e.occurred_at
from json_table(
  ?,
  '$[*]' columns (
    n for ordinality,
    event_id char(36) character set ascii path '$.event_id' error on empty error on error,
    event_type varchar(200) character set utf8mb4 path '$.event_type' error on empty error on error,
    source varchar(200) character set utf8mb4 path '$.source' error on empty error on error,
    aggregate_type varchar(200) character set utf8mb4 path '$.aggregate_type' error on empty error on error,
    aggregate_id varchar(200) character set utf8mb4 path '$.aggregate_id' error on empty error on error,
    payload longtext character set utf8mb4 path '$.payload' error on empty error on error,
    headers longtext character set utf8mb4 path '$.headers' error on empty error on error,
    occurred_at datetime(6) path '$.occurred_at' error on empty error on error
  )
) as e
order by e.n
