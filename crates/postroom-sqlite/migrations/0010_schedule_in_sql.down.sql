create table postroom_outbox_unchecked (
    event_id text not null primary key,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null check (json_valid(payload)),
    headers text not null default '{}' check (json_valid(headers)),
    occurred_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    due_at text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

insert into postroom_outbox_unchecked (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    due_at,
    created_at
)
select
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    due_at,
    created_at
from postroom_outbox_scheduled;

drop table postroom_outbox_scheduled;

alter table postroom_outbox_unchecked rename to postroom_outbox_scheduled;

-- The pulse asks for the smallest due_at each time.
create index postroom_outbox_scheduled_due on postroom_outbox_scheduled (due_at);
