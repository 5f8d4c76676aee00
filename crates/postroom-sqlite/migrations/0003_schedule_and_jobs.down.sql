drop table postroom_outbox_job;
drop table postroom_outbox_scheduled;
