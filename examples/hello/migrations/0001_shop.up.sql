create table hello_order (
    order_id varchar(36) not null primary key,
    customer varchar(100) not null,
    item varchar(100) not null,
    quantity bigint not null
);

create table hello_receipt (
    order_id varchar(36) not null primary key,
    receipt varchar(300) not null
);

create table hello_parcel (
    order_id varchar(36) not null primary key,
    receipts bigint not null
);
