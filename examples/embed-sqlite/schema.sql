create table if not exists orders (
    order_id text primary key,
    total integer not null
);

create table if not exists sales (
    only_row integer primary key default 1 check (only_row = 1),
    total integer not null default 0
);

insert or ignore into sales (only_row) values (1);
