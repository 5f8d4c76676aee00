alter table umbra_subscription drop column guild_version;
alter table umbra_subscription drop column version;
alter table umbra_guild drop column version;
