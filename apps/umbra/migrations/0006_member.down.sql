drop table umbra_member;
