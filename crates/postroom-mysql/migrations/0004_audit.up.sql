-- Archived entries: what retention removed from the log.
create table if not exists postroom_audit_events (
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
  archived_at datetime(6) not null default (utc_timestamp(6)),
  primary key (id),
  key postroom_audit_events_event_id (event_id),
  key postroom_audit_events_key (aggregate_type, aggregate_id, id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

drop trigger if exists postroom_audit_events_immutable;
create trigger postroom_audit_events_immutable before update on postroom_audit_events for each row
  signal sqlstate '45000' set message_text = 'an archived event is immutable: postroom_audit_events is written once';

-- What operators did.
create table if not exists postroom_admin_audit (
  audit_id bigint not null auto_increment,
  at datetime(6) not null default (utc_timestamp(6)),
  actor varchar(200) not null,
  action varchar(200) not null,
  target varchar(500) not null,
  detail longtext not null default ('{}'),
  primary key (audit_id),
  constraint postroom_admin_audit_detail check (json_valid(detail))
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
