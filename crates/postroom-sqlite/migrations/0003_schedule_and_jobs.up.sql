create table postroom_outbox_scheduled (
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

-- The pulse asks for the smallest due_at each time.
create index postroom_outbox_scheduled_due on postroom_outbox_scheduled (due_at);

create table postroom_outbox_job (
    name text not null primary key,
    owner text,
    claimed_until text,
    next_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    last_at text,
    last_ms integer,
    last_error text,
    runs integer not null default 0,
    failures integer not null default 0
) strict, without rowid;
