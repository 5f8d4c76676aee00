-- Any program that can open the file may schedule by a plain insert, so the limits of postroom_outbox are checks here too: an event
-- that the outbox refuses would be due for ever. SQLite adds no check to a table, so the table is made again.
create table postroom_outbox_checked (
    -- A UUIDv7: milliseconds since 1970, version 7, 12 random bits, variant, 62 random bits.
    event_id text not null primary key default (lower(
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
    due_at text not null,
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
    constraint "due_at must look like 2026-01-31T23:59:59.999Z and not lie before 1970" check (
        due_at glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z'
        and due_at >= '1970'
        and substr(due_at, 12, 2) < '24'
        and strftime('%d', due_at, '+0 days') is substr(due_at, 9, 2)
    ),
    constraint "created_at is set by the database" check (
        created_at glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]Z'
        and substr(created_at, 12, 2) < '24'
        and strftime('%d', created_at, '+0 days') is substr(created_at, 9, 2)
    )
) strict;

insert into postroom_outbox_checked (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    due_at,
    created_at
)
-- Rows of a plain insert may have been written in another form, which worked until now.
select
    lower(event_id),
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', occurred_at), occurred_at),
    coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', due_at), due_at),
    coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', created_at), created_at)
from postroom_outbox_scheduled;

drop table postroom_outbox_scheduled;

alter table postroom_outbox_checked rename to postroom_outbox_scheduled;

-- The pulse asks for the smallest due_at each time.
create index postroom_outbox_scheduled_due on postroom_outbox_scheduled (due_at);

-- A check cannot look inside JSON row by row, a trigger can.
create trigger postroom_outbox_scheduled_headers after insert on postroom_outbox_scheduled when new.headers <> '{}'
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
