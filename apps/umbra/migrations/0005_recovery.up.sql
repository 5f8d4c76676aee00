create table /*M! if not exists */ umbra_snapshot (
    snapshot_id varchar(36) not null primary key,
    guild_id varchar(36) not null,
    taken_for varchar(100) not null,
    is_deleted boolean not null
);

create table /*M! if not exists */ umbra_restore (
    restore_job_id varchar(36) not null primary key,
    snapshot_id varchar(36) not null,
    guild_id varchar(36) not null,
    status varchar(20) not null
);
