drop table umbra_audit;
