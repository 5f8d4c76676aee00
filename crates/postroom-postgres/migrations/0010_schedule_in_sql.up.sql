-- Scheduling for every other language. It checks what postroom.emit checks, in the same words, and the time.
create function postroom.schedule(
    event_type text,
    aggregate_type text,
    aggregate_id text,
    payload jsonb,
    due_at timestamptz,
    headers jsonb default '{}',
    event_id uuid default null,
    source text default null
) returns uuid
language plpgsql
volatile
as $$
declare
    new_id constant uuid := coalesce(schedule.event_id, postroom.uuid_v7());
    bytes bigint;
begin
    perform postroom.check_text('event_type', schedule.event_type, 200);
    perform postroom.check_text('aggregate_type', schedule.aggregate_type, 200);
    perform postroom.check_text('aggregate_id', schedule.aggregate_id, 200);
    if schedule.source <> '' then
        perform postroom.check_text('source', schedule.source, 200);
    end if;
    if schedule.event_type !~ '^[A-Za-z0-9._/-]+$' then
        raise exception 'event_type "%" contains "%"',
            schedule.event_type,
            substring(schedule.event_type from '[^A-Za-z0-9._/-]')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use letters, digits, ''.'', ''-'', ''_'' and ''/''.';
    end if;
    if schedule.payload is null then
        raise exception 'payload is null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a JSON value; for an event without data, ''{}''.';
    end if;
    bytes := octet_length(schedule.payload::text);
    if bytes > 1000000 then
        raise exception 'payload has % bytes, the limit is 1000000', bytes
            using errcode = 'invalid_parameter_value',
                  hint = 'Store the large part elsewhere and emit its address.';
    end if;
    perform postroom.check_headers(coalesce(schedule.headers, '{}'));
    if schedule.due_at is null then
        raise exception 'due_at is null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a time; for an event without delay, call postroom.emit.';
    end if;
    -- Also refuses infinity.
    if schedule.due_at < '1970-01-01 00:00:00+00' or schedule.due_at >= '10000-01-01 00:00:00+00' then
        raise exception 'due_at is in the year %; it must lie between 1970 and 9999',
            extract(year from schedule.due_at at time zone 'UTC')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a time between 1970 and 9999.';
    end if;

    insert into postroom.outbox_scheduled (
        event_id,
        event_type,
        source,
        aggregate_type,
        aggregate_id,
        payload,
        headers,
        due_at
    )
    values (
        new_id,
        schedule.event_type,
        coalesce(schedule.source, ''),
        schedule.aggregate_type,
        schedule.aggregate_id,
        schedule.payload,
        coalesce(schedule.headers, '{}'),
        schedule.due_at
    );
    return new_id;
end
$$;

-- False when the event does not wait any more, or never did.
create function postroom.cancel(event_id uuid) returns boolean
language plpgsql
volatile
as $$
begin
    if cancel.event_id is null then
        raise exception 'event_id is null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give the id that postroom.schedule has returned.';
    end if;
    -- Waits for a relay that is releasing the event: it is released or cancelled, never both.
    delete from postroom.outbox_scheduled s
    where s.event_id = cancel.event_id;
    return found;
end
$$;
