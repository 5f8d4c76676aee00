-- How often a guild or a subscription has changed: events carry it, and so tell what happened first.
alter table umbra_guild add column /*M! if not exists */ version bigint not null default 0;

alter table umbra_subscription add column /*M! if not exists */ version bigint not null default 0;

-- The guild's version when it was subscribed for.
alter table umbra_subscription add column /*M! if not exists */ guild_version bigint not null default 0;
