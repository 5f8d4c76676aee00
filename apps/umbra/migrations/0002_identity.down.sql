drop table umbra_session;
drop table umbra_user;
