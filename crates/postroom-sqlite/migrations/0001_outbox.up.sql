-- The log. AUTOINCREMENT is what the reader stands on: without it SQLite hands out the id of a deleted row again, and
-- a cursor that has passed that id never sees the new row.
--
-- Any program that can open the file may insert here, so the limits are checks whose names say the limit, and nothing
-- gets in that a reader could not take out again: one bad row would stop every route. No function newer than
-- SQLite 3.37 is used, because the program that inserts brings its own SQLite.
create table postroom_outbox (
    id integer primary key autoincrement,
    -- A UUIDv7: milliseconds since 1970, version 7, 12 random bits, variant, 62 random bits.
    event_id text not null default (lower(
        substr(printf('%012x', cast((julianday('now') - 2440587.5) * 86400000 + 0.5 as integer)), 1, 8)
        || '-' || substr(printf('%012x', cast((julianday('now') - 2440587.5) * 86400000 + 0.5 as integer)), 9)
        || '-7' || substr(hex(randomblob(2)), 2)
        || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
        || '-' || hex(randomblob(6))
    )),
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null,
    headers text not null default '{}',
    occurred_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    constraint "event_id must be a UUID in lower case, 36 characters" check (
        event_id glob '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
    ),
    constraint "event_type must have 1 to 200 letters, digits, '.', '-', '_' or '/'" check (
        length(event_type) between 1 and 200
        and event_type not glob '*[^-A-Za-z0-9._/]*'
    ),
    constraint "source must have at most 200 bytes and no NUL" check (
        length(cast(source as blob)) <= 200
        and instr(source, char(0)) = 0
    ),
    constraint "aggregate_type must have 1 to 200 bytes and no NUL" check (
        length(cast(aggregate_type as blob)) between 1 and 200
        and instr(aggregate_type, char(0)) = 0
    ),
    constraint "aggregate_id must have 1 to 200 bytes and no NUL" check (
        length(cast(aggregate_id as blob)) between 1 and 200
        and instr(aggregate_id, char(0)) = 0
    ),
    constraint "payload must have at most 1000000 bytes" check (
        length(cast(payload as blob)) <= 1000000
    ),
    -- A real NUL ends the text for json_valid, what stands behind it would pass unseen. The escape \u0000 is looked
    -- for without the pairs of backslashes, each of which is an escaped backslash.
    constraint "payload must not contain NUL" check (
        instr(payload, char(0)) = 0
        and (instr(payload, '\u0000') = 0 or instr(replace(payload, '\\', ''), '\u0000') = 0)
    ),
    constraint "payload must be JSON" check (json_valid(payload)),
    constraint "headers must be a JSON object" check (
        json_valid(headers)
        and substr(headers, 1, 1) = '{'
        and instr(headers, char(0)) = 0
    ),
    constraint "occurred_at must look like 2026-01-31T23:59:59.999Z and not lie before 1970" check (
        occurred_at glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z'
        and occurred_at >= '1970'
        and substr(occurred_at, 12, 2) < '24'
        and strftime('%d', occurred_at, '+0 days') is substr(occurred_at, 9, 2)
    ),
    constraint "created_at is set by the database" check (
        created_at glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z'
        and substr(created_at, 12, 2) < '24'
        and strftime('%d', created_at, '+0 days') is substr(created_at, 9, 2)
    )
) strict;

-- To find one event by its id. Not unique: the inbox removes duplicates, and a check per insert would cost every emit.
create index postroom_outbox_event_id on postroom_outbox (event_id);

create trigger postroom_outbox_is_immutable before update on postroom_outbox
begin
    select raise(abort, 'an event in postroom_outbox is immutable: emit a new event instead of changing one');
end;

-- A check cannot look inside JSON row by row, a trigger can.
create trigger postroom_outbox_headers after insert on postroom_outbox when new.headers <> '{}'
begin
    select
        case
            when strange then raise(abort, 'headers must be a JSON object whose values are strings without NUL')
            when bytes > 16384 then raise(abort, 'headers must have at most 16384 bytes, names and values together')
        end
    from (
        select
            max(type <> 'text' or instr(key, char(0)) > 0 or instr(value, char(0)) > 0) as strange,
            sum(length(cast(key as blob)) + length(cast(value as blob))) as bytes
        from json_each(new.headers)
    );
end;

create table postroom_outbox_cursor (
    route text not null,
    shard integer not null,
    position text not null,
    epoch integer not null default 0,
    owner text,
    expires_at text,
    is_paused integer not null default 0,
    settled_at text,
    delivered integer not null default 0,
    primary key (route, shard)
) strict, without rowid;

create table postroom_outbox_signal (
    id integer primary key,
    version integer not null default 0
) strict;

insert into postroom_outbox_signal (id) values (1);
