-- A UUIDv7: 48 bits of milliseconds since 1970 over a random UUIDv4, then the version's four bits from 4 to 7.
create function postroom.uuid_v7() returns uuid
language sql
volatile
parallel safe
as $$
    select encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

-- The log. Programs should call postroom.emit, which says what is wrong; whoever inserts here directly still cannot put
-- in what a reader could not take out, because one such row would stop every route. Each check costs every emit some
-- microseconds (a regular expression with {1,200} thirty), so there are only those.
create table postroom.outbox (
    -- Stands before id, and must: columns get their defaults in this order, so a writer has its xid before it draws its
    -- number. The other way round a tick in between puts the row below its own lower bound, and it is lost (measured).
    tx xid8 not null default pg_current_xact_id(),
    -- cache 1: numbers kept back by a session would be drawn long before they are used. Never set the sequence back.
    id bigint generated always as identity (cache 1) primary key,
    event_id uuid not null default postroom.uuid_v7(),
    event_type varchar(200) not null,
    source varchar(200) not null default '',
    aggregate_type varchar(200) not null,
    aggregate_id varchar(200) not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    occurred_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    -- As text, because that is what a reader gets: 1e100000 is stored in ten bytes and read as a hundred thousand.
    constraint "payload has at most 4000000 bytes as text"
        check (pg_column_size(payload) < 300 or octet_length(payload::text) <= 4000000),
    -- Also keeps out infinity, which no program can read.
    constraint "times lie between 1970 and 9999"
        check (
            occurred_at >= '1970-01-01 00:00:00+00'
            and greatest(occurred_at, created_at) < '10000-01-01 00:00:00+00'
        )
);

-- To find one event by its id. Not unique: receivers remove duplicates.
create index outbox_event_id on postroom.outbox (event_id);

create function postroom.refuse_update() returns trigger
language plpgsql
as $$
begin
    raise exception 'an event in %.% cannot be changed', tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Emit a new event that corrects the old one; receivers may have seen it already.';
end
$$;

create trigger outbox_is_immutable
    before update on postroom.outbox
    for each statement execute function postroom.refuse_update();

-- Ticks: the reader's clock. Window (a, b] is what snapshot a does not see and snapshot b does; any a < b of one era
-- will do. How the bounds are found, and why they hold: sql/pulse.sql.
create table postroom.outbox_tick (
    n bigint primary key,
    -- A new one after the database was restored elsewhere: xids of two eras cannot be compared.
    era int not null,
    snapshot pg_snapshot not null,
    -- Every row of window (n - 1, n] has an id above lo.
    lo bigint not null,
    -- Every row that this snapshot sees has an id of at most hi.
    hi bigint not null,
    -- Every row with an id of at most floor is seen by this snapshot, now and for ever.
    floor bigint not null,
    at timestamptz not null default clock_timestamp()
);

-- Finds the newest tick taken before an xid was given out.
create index outbox_tick_xmax on postroom.outbox_tick (era, pg_snapshot_xmax(snapshot));

-- Sees nothing: every position begins here. It stays for ever.
insert into postroom.outbox_tick (n, era, snapshot, lo, hi, floor) values (0, 1, '1:1:', 0, 0, 0);

-- Where the xids of the ticks come from. A dump restored into another cluster brings this row along, and it no longer
-- fits.
create table postroom.outbox_cluster (
    id int primary key check (id = 1),
    system_identifier bigint not null,
    database_oid bigint not null
);

insert into postroom.outbox_cluster (id, system_identifier, database_oid)
select
    1,
    c.system_identifier,
    d.oid::bigint
from pg_control_system() c,
    pg_database d
where d.datname = current_database();

-- Updated after every page; half-empty blocks keep those updates within the block and the index untouched.
create table postroom.outbox_cursor (
    route text not null,
    shard int not null,
    position text not null,
    epoch bigint not null default 0,
    owner text,
    expires_at timestamptz,
    is_paused boolean not null default false,
    settled_at timestamptz,
    delivered bigint not null default 0,
    primary key (route, shard)
) with (fillfactor = 50);

create table postroom.outbox_signal (
    id int primary key check (id = 1),
    version bigint not null default 0
) with (fillfactor = 50);

insert into postroom.outbox_signal (id) values (1);

-- The way in for every other language. It checks what the library checks, in the same words.
create function postroom.emit(
    event_type text,
    aggregate_type text,
    aggregate_id text,
    payload jsonb,
    headers jsonb default '{}',
    event_id uuid default null,
    source text default null
) returns uuid
language plpgsql
volatile
as $$
declare
    new_id constant uuid := coalesce(emit.event_id, postroom.uuid_v7());
    bytes bigint;
begin
    perform postroom.check_text('event_type', emit.event_type, 200);
    perform postroom.check_text('aggregate_type', emit.aggregate_type, 200);
    perform postroom.check_text('aggregate_id', emit.aggregate_id, 200);
    if emit.source <> '' then
        perform postroom.check_text('source', emit.source, 200);
    end if;
    if emit.event_type !~ '^[A-Za-z0-9._/-]+$' then
        raise exception 'event_type "%" contains "%"',
            emit.event_type,
            substring(emit.event_type from '[^A-Za-z0-9._/-]')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use letters, digits, ''.'', ''-'', ''_'' and ''/''.';
    end if;
    if emit.payload is null then
        raise exception 'payload is null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a JSON value; for an event without data, ''{}''.';
    end if;
    bytes := octet_length(emit.payload::text);
    if bytes > 1000000 then
        raise exception 'payload has % bytes, the limit is 1000000', bytes
            using errcode = 'invalid_parameter_value',
                  hint = 'Store the large part elsewhere and emit its address.';
    end if;
    perform postroom.check_headers(coalesce(emit.headers, '{}'));

    insert into postroom.outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, headers)
    values (
        new_id,
        emit.event_type,
        coalesce(emit.source, ''),
        emit.aggregate_type,
        emit.aggregate_id,
        emit.payload,
        coalesce(emit.headers, '{}')
    );
    return new_id;
end
$$;

create function postroom.check_text(field text, value text, bytes_max int) returns void
language plpgsql
immutable
as $$
begin
    if value is null or value = '' then
        raise exception '% is empty', field
            using errcode = 'invalid_parameter_value',
                  hint = format('Give 1 to %s bytes.', bytes_max);
    end if;
    if octet_length(value) > bytes_max then
        raise exception '% has % bytes, the limit is %', field, octet_length(value), bytes_max
            using errcode = 'invalid_parameter_value',
                  hint = 'Use a shorter name or a hash of it.';
    end if;
end
$$;

create function postroom.check_headers(headers jsonb) returns void
language plpgsql
immutable
as $$
declare
    bytes bigint;
begin
    if headers = '{}' then
        return;
    end if;
    if jsonb_typeof(headers) <> 'object' or jsonb_path_exists(headers, '$.* ? (@.type() != "string")') then
        raise exception 'headers is not an object of strings'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give headers like {"name": "value"}.';
    end if;
    select sum(octet_length(h.key) + octet_length(h.value)) into bytes from jsonb_each_text(headers) h;
    if bytes > 16384 then
        raise exception 'headers have % bytes together, the limit is 16384', bytes
            using errcode = 'invalid_parameter_value',
                  hint = 'Move data into the payload.';
    end if;
end
$$;
