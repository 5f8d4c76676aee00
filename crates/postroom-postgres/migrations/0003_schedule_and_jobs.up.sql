create table postroom.outbox_scheduled (
    event_id uuid primary key,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    occurred_at timestamptz not null default clock_timestamp(),
    due_at timestamptz not null,
    created_at timestamptz not null default clock_timestamp(),
    -- Also refuses infinity, which no program can read back.
    constraint "due_at lies between 1970 and 9999"
        check (due_at >= '1970-01-01 00:00:00+00' and due_at < '10000-01-01 00:00:00+00')
);

-- Every pulse asks for the smallest.
create index outbox_scheduled_due on postroom.outbox_scheduled (due_at);

create table postroom.outbox_job (
    name text primary key,
    owner text,
    claimed_until timestamptz,
    next_at timestamptz not null default clock_timestamp(),
    last_at timestamptz,
    last_ms bigint,
    last_error text,
    runs bigint not null default 0,
    failures bigint not null default 0
) with (fillfactor = 50);
