-- The plainest way to read the log: by primary key, the columns a relay needs, nothing else.
select
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload::text as payload,
    headers::text as headers,
    occurred_at,
    created_at
from postroom.outbox
where id > $1
order by id
limit $2
