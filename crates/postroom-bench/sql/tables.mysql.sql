-- What the benches write besides the outbox, as an application would have it; bench_inbox is event_handled once more.
create table if not exists bench_account (
  id bigint not null,
  balance bigint not null,
  primary key (id)
) engine=InnoDB;

create table if not exists bench_order (
  id bigint not null auto_increment,
  account_id bigint not null,
  amount bigint not null,
  note varchar(200) not null,
  primary key (id)
) engine=InnoDB;

create table if not exists bench_effect (
  id bigint not null auto_increment,
  event_id varchar(36) not null,
  account_id bigint not null,
  amount bigint not null,
  primary key (id)
) engine=InnoDB;

create table if not exists bench_inbox like postroom_event_handled;
