drop table postroom.outbox_job;
drop table postroom.outbox_scheduled;
