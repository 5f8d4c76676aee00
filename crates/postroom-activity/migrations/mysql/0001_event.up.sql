-- Activity of users: one row per event, from every source. Times are in UTC.
create table if not exists user_activity_event (
    id bigint not null auto_increment,
    event_id varchar(64) not null,
    event_name varchar(100) not null,
    event_version varchar(20) not null,
    occurred_at datetime(6) not null,
    member_id bigint null,
    anonymous_id varchar(100) null,
    session_id varchar(100) null,
    -- SERVER | CLIENT
    source varchar(20) not null,
    request_path varchar(255) null,
    request_method varchar(10) null,
    device_id varchar(100) null,
    platform varchar(30) null,
    app_version varchar(30) null,
    locale varchar(20) null,
    properties json not null,
    created_at datetime(6) not null default (utc_timestamp(6)),
    primary key (id),
    unique key user_activity_event_id (event_id),
    key user_activity_event_member (member_id, occurred_at desc),
    key user_activity_event_name (event_name, occurred_at desc),
    key user_activity_event_time (occurred_at desc)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Events that a sink has refused or not taken yet after an attempt, with the column names of the specification. These are rows of the
-- relay. An event that was sent, or that was not tried yet, has no row here; `postroom why EVENT` shows it.
create or replace view user_activity_dispatch_outbox as
select
    aggregate_id as event_id,
    substring(route, 10) as sink_type,
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
    substring(route, 10),
    'FAILED',
    attempts,
    null,
    coalesce(reason, error),
    dead_at
from postroom_outbox_failed
where route like 'activity-%' and aggregate_type = 'activity' and state = 'dead';
