-- What the benches write besides the outbox, as an application would have it; bench_inbox is event_handled once more.
create table if not exists bench_account (
    id integer primary key,
    balance integer not null
);

create table if not exists bench_order (
    id integer primary key,
    account_id integer not null,
    amount integer not null,
    note text not null
);

create table if not exists bench_effect (
    id integer primary key,
    event_id text not null,
    account_id integer not null,
    amount integer not null
);

create table if not exists bench_inbox (
    idempotency_key text not null primary key,
    handled_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid;

create index if not exists bench_inbox_at on bench_inbox (handled_at);
