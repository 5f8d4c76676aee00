-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again.

-- Accounts as they stand. A clearing account is the other side of a currency's deposits and withdrawals.
create table /*M! if not exists */ ledger_account (
    account_id varchar(36) not null primary key,
    owner varchar(64) not null,
    name varchar(100) not null,
    currency varchar(3) not null,
    balance bigint not null,
    version bigint not null,
    opened_at_ms bigint not null,
    constraint ledger_account_not_overdrawn check (balance >= 0 or account_id like 'clearing-%')
);

create table /*M! if not exists */ ledger_transaction (
    transaction_id varchar(36) not null primary key,
    kind varchar(10) not null,
    currency varchar(3) not null,
    -- Unique: a transaction is reversed once.
    reverses varchar(36) null unique,
    posted_at_ms bigint not null
);

-- The journal. An account's entries are numbered by its version: the same number twice is refused.
create table /*M! if not exists */ ledger_entry (
    account_id varchar(36) not null,
    sequence_number bigint not null,
    transaction_id varchar(36) not null,
    amount bigint not null,
    balance_after bigint not null,
    primary key (account_id, sequence_number),
    foreign key (account_id) references ledger_account (account_id),
    foreign key (transaction_id) references ledger_transaction (transaction_id),
    constraint ledger_entry_moves_something check (amount <> 0)
);
create index /*M! if not exists */ ledger_entry_of_transaction on ledger_entry (transaction_id);

-- What was answered to which idempotency key. The id is made from the key, because databases disagree on whether two keys
-- that differ in case are the same.
create table /*M! if not exists */ ledger_request (
    request_id varchar(36) not null primary key,
    command varchar(1000) not null,
    status integer not null,
    answer text not null,
    answered_at_ms bigint not null
);
create index /*M! if not exists */ ledger_request_by_age on ledger_request (answered_at_ms);

-- Read model: balances, as the newest event of each account tells them.
create table /*M! if not exists */ ledger_balance (
    account_id varchar(36) not null primary key,
    owner varchar(64) not null,
    currency varchar(3) not null,
    balance bigint not null,
    sequence_number bigint not null,
    transaction_id varchar(36) not null,
    posted_at_ms bigint not null
);

-- Read model: what the accounts of an owner sum up to, event by event.
create table /*M! if not exists */ ledger_portfolio (
    owner varchar(64) not null,
    account_id varchar(36) not null,
    currency varchar(3) not null,
    balance bigint not null,
    transactions bigint not null,
    primary key (owner, account_id)
);

-- The audit log: appended to, removed from after five years, never changed.
create table /*M! if not exists */ ledger_audit (
    account_id varchar(36) not null,
    transaction_id varchar(36) not null,
    event_type varchar(200) not null,
    event_id varchar(36) not null,
    sequence_number bigint not null,
    currency varchar(3) not null,
    amount bigint not null,
    balance_after bigint not null,
    posted_at_ms bigint not null,
    primary key (account_id, transaction_id)
);
create index /*M! if not exists */ ledger_audit_by_age on ledger_audit (posted_at_ms);

-- How far each account's events have come, and what is odd about their numbers.
create table /*M! if not exists */ ledger_sequence (
    account_id varchar(36) not null primary key,
    sequence_number bigint not null
);
create table /*M! if not exists */ ledger_anomaly (
    account_id varchar(36) not null,
    sequence_number bigint not null,
    -- missing | repeated
    kind varchar(10) not null,
    noticed_at_ms bigint not null,
    -- When a missing one came after all.
    mended_at_ms bigint null,
    primary key (account_id, sequence_number, kind)
);
