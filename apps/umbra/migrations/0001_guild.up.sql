create table umbra_guild (
    guild_id varchar(36) not null primary key,
    owner_id varchar(36) not null,
    status varchar(20) not null
);
