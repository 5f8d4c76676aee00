-- Grows whenever somebody but the route's own line changes what the route has parked, or pauses it: its lines read their state
-- again then, and no others do.
create table postroom_outbox_route_change (
    route text not null primary key,
    version integer not null
) strict, without rowid;
