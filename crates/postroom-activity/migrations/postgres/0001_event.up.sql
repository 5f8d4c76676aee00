-- Activity of users: one row per event, from every source.
create table user_activity_event (
    id bigserial primary key,
    event_id varchar(64) not null,
    event_name varchar(100) not null,
    event_version varchar(20) not null,
    occurred_at timestamptz not null,
    member_id bigint,
    anonymous_id varchar(100),
    session_id varchar(100),
    -- SERVER | CLIENT
    source varchar(20) not null,
    request_path varchar(255),
    request_method varchar(10),
    device_id varchar(100),
    platform varchar(30),
    app_version varchar(30),
    locale varchar(20),
    properties jsonb not null,
    created_at timestamptz not null default now(),
    unique (event_id)
);

create index user_activity_event_member on user_activity_event (member_id, occurred_at desc);
create index user_activity_event_name on user_activity_event (event_name, occurred_at desc);
create index user_activity_event_time on user_activity_event (occurred_at desc);

-- Events that a sink has refused or not taken yet after an attempt, with the column names of the specification. These are rows of the
-- relay. An event that was sent, or that was not tried yet, has no row here; `postroom why EVENT` shows it.
create view user_activity_dispatch_outbox as
select
    aggregate_id as event_id,
    substring(route from 10) as sink_type,
    case state when 'retry' then 'RETRY' when 'held' then 'FAILED' else 'PENDING' end as status,
    attempts as retry_count,
    next_at as next_retry_at,
    error as last_error,
    coalesce(failed_at, created_at) as updated_at
from postroom.outbox_parked
where route like 'activity-%' and aggregate_type = 'activity'
union all
select
    aggregate_id,
    substring(route from 10),
    'FAILED',
    attempts,
    null,
    coalesce(reason, error),
    dead_at
from postroom.outbox_failed
where route like 'activity-%' and aggregate_type = 'activity' and state = 'dead';
