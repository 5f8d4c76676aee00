create table /*M! if not exists */ umbra_user (
    user_id varchar(36) not null primary key,
    discord_user_id varchar(36) not null unique
);

create table /*M! if not exists */ umbra_session (
    session_id varchar(36) not null primary key,
    user_id varchar(36) not null
);
