drop table umbra_guild;
