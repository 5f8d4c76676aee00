-- What the benches write besides the outbox, as an application would have it; bench_inbox is event_handled once more.
create table if not exists bench_account (
    id bigint primary key,
    balance bigint not null
) with (fillfactor = 50);

create table if not exists bench_order (
    id bigint generated always as identity primary key,
    account_id bigint not null,
    amount bigint not null,
    note varchar(200) not null
);

create table if not exists bench_effect (
    id bigint generated always as identity primary key,
    event_id varchar(36) not null,
    account_id bigint not null,
    amount bigint not null
);

create table if not exists bench_inbox (
    idempotency_key text primary key,
    handled_at timestamptz not null default clock_timestamp()
);

create index if not exists bench_inbox_at on bench_inbox (handled_at);
