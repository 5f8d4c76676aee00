-- Rules that fire, and those whose end has not been told yet.
create table if not exists postroom_alert (
  rule varchar(200) not null,
  -- began | ended
  turn varchar(10) not null,
  since datetime(6) not null,
  is_told boolean not null,
  due_at datetime(6) not null,
  error mediumtext null,
  primary key (rule)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
