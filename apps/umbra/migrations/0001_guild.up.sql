-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again.

create table /*M! if not exists */ umbra_guild (
    guild_id varchar(36) not null primary key,
    owner_id varchar(36) not null,
    status varchar(20) not null
);
