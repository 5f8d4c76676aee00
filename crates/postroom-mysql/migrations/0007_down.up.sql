-- What a route cannot reach, and since when; gone when it can.
create table if not exists postroom_outbox_down (
  route varchar(200) not null,
  shard int not null,
  -- delivery | feed
  side varchar(10) not null,
  reason mediumtext not null,
  since datetime(6) not null,
  seen_at datetime(6) not null,
  primary key (route, shard, side)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
