-- Who is told: an address leads to another one, and in the end to a user.
create table /*M! if not exists */ umbra_address (
    address varchar(60) not null primary key,
    leads_to varchar(60) not null,
    event_id varchar(36) not null
);

create table /*M! if not exists */ umbra_notice (
    event_id varchar(36) not null primary key,
    user_id varchar(36) not null,
    content varchar(1000) not null,
    status varchar(20) not null
);

create index /*M! if not exists */ umbra_notice_user on umbra_notice (user_id, event_id);
