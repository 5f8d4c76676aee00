drop view user_activity_dispatch_outbox;
drop table user_activity_event;
