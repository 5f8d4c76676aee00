create table postroom_audit_events (
    id integer primary key,
    event_id text not null,
    event_type text not null,
    source text not null default '',
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null check (json_valid(payload)),
    headers text not null default '{}' check (json_valid(headers)),
    occurred_at text not null,
    created_at text not null,
    archived_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

create index postroom_audit_events_event_id on postroom_audit_events (event_id);
create index postroom_audit_events_key on postroom_audit_events (aggregate_type, aggregate_id, id);

create trigger postroom_audit_events_is_immutable before update on postroom_audit_events
begin
    select raise(abort, 'postroom_audit_events is read-only: an archived event cannot be changed');
end;

create table postroom_admin_audit (
    audit_id integer primary key autoincrement,
    at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    actor text not null,
    action text not null,
    target text not null,
    detail text not null default '{}' check (json_valid(detail))
) strict;
