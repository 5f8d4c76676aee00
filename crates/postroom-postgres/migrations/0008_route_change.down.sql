drop table postroom.outbox_route_change;
