-- Tokens of services and people. The database never sees a token: it keeps its SHA-256, and the first characters for people.
create table postroom_access_token (
    hash text not null primary key,
    hint text not null,
    name text not null,
    -- service | viewer | operator | admin
    role text not null,
    -- {"modules": ["ledger"], "emit": ["shop.order.**"]}
    scope text not null default '{}' check (json_valid(scope)),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    created_by text not null,
    expires_at text,
    last_used_at text,
    revoked_at text,
    revoked_by text
) strict, without rowid;
