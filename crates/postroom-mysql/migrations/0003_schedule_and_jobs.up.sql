-- Events whose time has not come. Checked here, because what cannot enter the outbox must not wait for it either.
create table if not exists postroom_outbox_scheduled (
  event_id char(36) character set ascii collate ascii_bin not null,
  event_type varchar(200) not null,
  source varchar(200) not null default '',
  aggregate_type varchar(200) not null,
  aggregate_id varchar(200) not null,
  payload longtext not null,
  headers longtext not null default ('{}'),
  occurred_at datetime(6) not null default (utc_timestamp(6)),
  due_at datetime(6) not null,
  created_at datetime(6) not null default (utc_timestamp(6)),
  primary key (event_id),
  -- The pulse asks for the smallest.
  key postroom_outbox_scheduled_due (due_at),
  constraint postroom_outbox_scheduled_payload check (json_valid(payload)),
  constraint postroom_outbox_scheduled_headers check (json_valid(headers))
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table if not exists postroom_outbox_job (
  name varchar(100) not null,
  owner varchar(200) null,
  claimed_until datetime(6) null,
  next_at datetime(6) not null default (utc_timestamp(6)),
  last_at datetime(6) null,
  last_ms bigint null,
  last_error mediumtext null,
  runs bigint not null default 0,
  failures bigint not null default 0,
  primary key (name)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
