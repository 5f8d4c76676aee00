-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again.

create table /*M! if not exists */ commerce_sequence (
    name varchar(20) not null primary key,
    last_id bigint not null
);

insert into commerce_sequence (name, last_id)
select names.name, 0
from (select 'product' as name union all select 'order' union all select 'payment') as names
where not exists (select 1 from commerce_sequence as known where known.name = names.name);

create table /*M! if not exists */ commerce_product (
    product_id bigint not null primary key,
    name varchar(100) not null,
    price bigint not null,
    stock bigint not null
);

create table /*M! if not exists */ commerce_like (
    product_id bigint not null,
    user_id bigint not null,
    primary key (product_id, user_id)
);

create table /*M! if not exists */ commerce_order (
    order_id bigint not null primary key,
    user_id bigint not null,
    payment_id bigint
);

create table /*M! if not exists */ commerce_order_line (
    order_id bigint not null,
    product_id bigint not null,
    price bigint not null,
    quantity bigint not null,
    primary key (order_id, product_id)
);

-- A row for each number: the consumers that count likes, sales and views never wait for each other.
create table /*M! if not exists */ commerce_product_metric (
    product_id bigint not null,
    metric varchar(10) not null,
    total bigint not null,
    primary key (product_id, metric)
);
