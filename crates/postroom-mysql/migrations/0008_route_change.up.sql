-- Grows whenever somebody but the route's own line changes what the route has parked, or pauses it: its lines read their state
-- again then, and no others do.
create table if not exists postroom_outbox_route_change (
  route varchar(200) not null,
  version bigint not null,
  primary key (route)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
