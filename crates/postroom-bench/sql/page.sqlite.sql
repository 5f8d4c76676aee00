-- The plainest way to read the log: by primary key, the columns a relay needs, nothing else.
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
from postroom_outbox
where id > ?
order by id
limit ?
