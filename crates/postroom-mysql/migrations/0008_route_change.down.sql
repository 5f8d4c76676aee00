drop table if exists postroom_outbox_route_change;
