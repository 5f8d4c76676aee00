create table /*M! if not exists */ umbra_billing_key (
    billing_key_id varchar(36) not null primary key,
    user_id varchar(36) not null,
    card_token varchar(100) not null,
    is_deleted boolean not null
);

create index /*M! if not exists */ umbra_billing_key_user on umbra_billing_key (user_id);

-- live_guild_id is the guild as long as the subscription is live: a guild has one that is, and any number that were.
create table /*M! if not exists */ umbra_subscription (
    subscription_id varchar(36) not null primary key,
    guild_id varchar(36) not null,
    live_guild_id varchar(36) unique,
    user_id varchar(36) not null,
    billing_key_id varchar(36) not null,
    plan_code varchar(20) not null,
    next_plan_code varchar(20),
    status varchar(20) not null,
    cancel_at_period_end boolean not null,
    period_end_ms bigint,
    failures bigint not null
);

create index /*M! if not exists */ umbra_subscription_guild on umbra_subscription (guild_id, subscription_id);

create index /*M! if not exists */ umbra_subscription_key on umbra_subscription (billing_key_id);

create table /*M! if not exists */ umbra_attempt (
    attempt_id varchar(36) not null primary key,
    subscription_id varchar(36) not null,
    status varchar(20) not null,
    decline_code varchar(100)
);

create index /*M! if not exists */ umbra_attempt_subscription on umbra_attempt (subscription_id);
