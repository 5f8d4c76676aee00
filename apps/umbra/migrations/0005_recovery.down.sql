drop table umbra_restore;
drop table umbra_snapshot;
