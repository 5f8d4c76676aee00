-- Tokens of services and people. The database never sees a token: it keeps its SHA-256, and the first characters for people.
create table postroom.access_token (
    hash text primary key,
    hint text not null,
    name text not null,
    -- service | viewer | operator | admin
    role text not null,
    -- {"modules": ["ledger"], "emit": ["shop.order.**"]}
    scope jsonb not null default '{}',
    created_at timestamptz not null default clock_timestamp(),
    created_by text not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);
