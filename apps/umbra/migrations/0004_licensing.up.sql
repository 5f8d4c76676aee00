-- guild_event_id and subscription_event_id: the newest event of each that the licence has followed.
create table /*M! if not exists */ umbra_license (
    license_id varchar(36) not null primary key,
    guild_id varchar(36) not null unique,
    plan_code varchar(20) not null,
    next_plan_code varchar(20),
    next_plan_from_ms bigint,
    status varchar(20) not null,
    expires_at_ms bigint,
    subscription_id varchar(36),
    billing_key_id varchar(36),
    guild_event_id varchar(36) not null,
    subscription_event_id varchar(36) not null
);

create index /*M! if not exists */ umbra_license_subscription on umbra_license (subscription_id);

create index /*M! if not exists */ umbra_license_key on umbra_license (billing_key_id);
