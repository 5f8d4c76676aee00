-- Entries that wait for a retry, or behind one on their key. They carry the event, so retention of the log may pass
-- them.
create table postroom.outbox_parked (
    route text not null,
    shard int not null,
    id bigint not null,
    event_id uuid not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    occurred_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    state text not null,
    attempts int not null default 0,
    next_at timestamptz,
    error text,
    failed_at timestamptz,
    origin text not null default 'log',
    primary key (route, id)
);

-- What is due now.
create index outbox_parked_due on postroom.outbox_parked (route, shard, state, next_at);
-- What stands behind a failed entry on its key, in order.
create index outbox_parked_key on postroom.outbox_parked (route, shard, aggregate_type, aggregate_id, id);

create table postroom.outbox_failed (
    dead_id bigint generated always as identity primary key,
    route text not null,
    shard int not null,
    id bigint not null,
    event_id uuid not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    occurred_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    attempts int not null default 0,
    error text,
    failed_at timestamptz,
    dead_at timestamptz not null default clock_timestamp(),
    state text not null default 'dead',
    reason text,
    decided_at timestamptz,
    decided_by text,
    unique (route, id)
);

create index outbox_failed_state on postroom.outbox_failed (state, dead_at);

create table postroom.event_handled (
    idempotency_key text primary key,
    handled_at timestamptz not null default clock_timestamp()
);

-- For the inbox's own retention.
create index event_handled_at on postroom.event_handled (handled_at);

create table postroom.outbox_replay (
    replay_id bigint generated always as identity primary key,
    route text not null,
    filter jsonb not null,
    per_second int not null,
    next_id bigint not null default 0,
    until_id bigint not null,
    again boolean not null default false,
    state text not null default 'running',
    parked bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    created_by text not null default ''
);
