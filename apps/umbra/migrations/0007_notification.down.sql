drop table umbra_notice;
drop table umbra_address;
