-- Grows whenever somebody but the route's own line changes what the route has parked, or pauses it: its lines read their state
-- again then, and no others do.
create table postroom.outbox_route_change (
    route text primary key,
    version bigint not null
);
