create table postroom_outbox_parked (
    route text not null,
    shard integer not null,
    id integer not null,
    event_id text not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null check (json_valid(payload)),
    headers text not null default '{}' check (json_valid(headers)),
    occurred_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    state text not null,
    attempts integer not null default 0,
    next_at text,
    error text,
    failed_at text,
    origin text not null default 'log',
    primary key (route, id)
) strict;

-- What is due next on a shard.
create index postroom_outbox_parked_due on postroom_outbox_parked (route, shard, state, next_at);

-- What waits on a key, in order.
create index postroom_outbox_parked_key on postroom_outbox_parked (route, shard, aggregate_type, aggregate_id, id);

create table postroom_outbox_failed (
    dead_id integer primary key autoincrement,
    route text not null,
    shard integer not null,
    id integer not null,
    event_id text not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null check (json_valid(payload)),
    headers text not null default '{}' check (json_valid(headers)),
    occurred_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    attempts integer not null default 0,
    error text,
    failed_at text,
    dead_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    state text not null default 'dead',
    reason text,
    decided_at text,
    decided_by text,
    unique (route, id)
) strict;

-- The list of dead letters, by state and age.
create index postroom_outbox_failed_state on postroom_outbox_failed (state, dead_at);

create table postroom_event_handled (
    idempotency_key text not null primary key,
    handled_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid;

-- Retention of the inbox.
create index postroom_event_handled_at on postroom_event_handled (handled_at);

create table postroom_outbox_replay (
    replay_id integer primary key autoincrement,
    route text not null,
    filter text not null check (json_valid(filter)),
    per_second integer not null,
    next_id integer not null default 0,
    until_id integer not null,
    again integer not null default 0,
    state text not null default 'running',
    parked integer not null default 0,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    created_by text not null default ''
) strict;
