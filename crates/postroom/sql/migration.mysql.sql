create table if not exists postroom_migration (
  owner varchar(100) not null,
  number int not null,
  name varchar(200) not null,
  applied_at datetime(6) not null default (utc_timestamp(6)),
  primary key (owner, number)
) engine = InnoDB
