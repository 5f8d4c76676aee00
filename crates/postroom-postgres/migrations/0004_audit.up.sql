-- What retention removed from the log, for reading only.
create table postroom.audit_events (
    id bigint primary key,
    event_id uuid not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    occurred_at timestamptz not null,
    created_at timestamptz not null,
    archived_at timestamptz not null default clock_timestamp()
);

create index audit_events_event_id on postroom.audit_events (event_id);
create index audit_events_key on postroom.audit_events (aggregate_type, aggregate_id, id);

create trigger audit_events_is_immutable
    before update on postroom.audit_events
    for each statement execute function postroom.refuse_update();

create table postroom.admin_audit (
    audit_id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    actor text not null,
    action text not null,
    target text not null,
    detail jsonb not null default '{}'
);
