-- Entries that wait: for a retry, or behind one on their key.
create table if not exists postroom_outbox_parked (
  route varchar(200) not null,
  shard int not null,
  id bigint not null,
  event_id char(36) character set ascii collate ascii_bin not null,
  event_type varchar(200) not null,
  source varchar(200) not null default '',
  aggregate_type varchar(200) not null,
  aggregate_id varchar(200) not null,
  payload longtext not null,
  headers longtext not null default ('{}'),
  occurred_at datetime(6) not null default (utc_timestamp(6)),
  created_at datetime(6) not null default (utc_timestamp(6)),
  state varchar(20) not null,
  attempts int not null default 0,
  next_at datetime(6) null,
  -- Not text: an error longer than 64 KiB must not keep an entry from being parked.
  error mediumtext null,
  failed_at datetime(6) null,
  origin varchar(20) not null default 'log',
  primary key (route, id),
  key postroom_outbox_parked_due (route, shard, state, next_at),
  key postroom_outbox_parked_key (route, shard, aggregate_type, aggregate_id, id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Dead letters.
create table if not exists postroom_outbox_failed (
  dead_id bigint not null auto_increment,
  route varchar(200) not null,
  shard int not null,
  id bigint not null,
  event_id char(36) character set ascii collate ascii_bin not null,
  event_type varchar(200) not null,
  source varchar(200) not null default '',
  aggregate_type varchar(200) not null,
  aggregate_id varchar(200) not null,
  payload longtext not null,
  headers longtext not null default ('{}'),
  occurred_at datetime(6) not null default (utc_timestamp(6)),
  created_at datetime(6) not null default (utc_timestamp(6)),
  attempts int not null default 0,
  error mediumtext null,
  failed_at datetime(6) null,
  dead_at datetime(6) not null default (utc_timestamp(6)),
  state varchar(20) not null default 'dead',
  reason mediumtext null,
  decided_at datetime(6) null,
  decided_by varchar(200) null,
  primary key (dead_id),
  unique key postroom_outbox_failed_entry (route, id),
  key postroom_outbox_failed_state (state, dead_at)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- The inbox.
create table if not exists postroom_event_handled (
  idempotency_key varchar(300) not null,
  handled_at datetime(6) not null default (utc_timestamp(6)),
  primary key (idempotency_key),
  key postroom_event_handled_at (handled_at)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table if not exists postroom_outbox_replay (
  replay_id bigint not null auto_increment,
  route varchar(200) not null,
  filter longtext not null,
  per_second int not null,
  next_id bigint not null default 0,
  until_id bigint not null,
  again boolean not null default false,
  state varchar(20) not null default 'running',
  parked bigint not null default 0,
  created_at datetime(6) not null default (utc_timestamp(6)),
  created_by varchar(200) not null default '',
  primary key (replay_id),
  constraint postroom_outbox_replay_filter check (json_valid(filter))
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
