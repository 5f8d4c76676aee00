drop view if exists user_activity_dispatch_outbox;
drop table if exists user_activity_event;
