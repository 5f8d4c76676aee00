create table /*M! if not exists */ umbra_member (
    member_id varchar(36) not null primary key,
    guild_id varchar(36) not null,
    slug varchar(100) not null
);
