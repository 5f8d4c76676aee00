create schema if not exists postroom;
create table if not exists postroom.migration (
    owner text not null,
    number int not null,
    name text not null,
    applied_at timestamptz not null default now(),
    primary key (owner, number)
);
