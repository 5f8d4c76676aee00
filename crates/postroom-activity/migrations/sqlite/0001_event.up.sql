-- Activity of users: one row per event, from every source. Times are texts in UTC.
create table user_activity_event (
    id integer primary key autoincrement,
    event_id text not null unique,
    event_name text not null,
    event_version text not null,
    occurred_at text not null,
    member_id integer,
    anonymous_id text,
    session_id text,
    -- SERVER | CLIENT
    source text not null,
    request_path text,
    request_method text,
    device_id text,
    platform text,
    app_version text,
    locale text,
    properties text not null check (json_valid(properties)),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

create index user_activity_event_member on user_activity_event (member_id, occurred_at desc);
create index user_activity_event_name on user_activity_event (event_name, occurred_at desc);
create index user_activity_event_time on user_activity_event (occurred_at desc);

-- Events that a sink has refused or not taken yet after an attempt, with the column names of the specification. These are rows of the
-- relay. An event that was sent, or that was not tried yet, has no row here; `postroom why EVENT` shows it.
create view user_activity_dispatch_outbox as
select
    aggregate_id as event_id,
    substr(route, 10) as sink_type,
    case state when 'retry' then 'RETRY' when 'held' then 'FAILED' else 'PENDING' end as status,
    attempts as retry_count,
    next_at as next_retry_at,
    error as last_error,
    coalesce(failed_at, created_at) as updated_at
from postroom_outbox_parked
where route like 'activity-%' and aggregate_type = 'activity'
union all
select
    aggregate_id,
    substr(route, 10),
    'FAILED',
    attempts,
    null,
    coalesce(reason, error),
    dead_at
from postroom_outbox_failed
where route like 'activity-%' and aggregate_type = 'activity' and state = 'dead';
