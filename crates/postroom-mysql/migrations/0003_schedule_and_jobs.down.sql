drop table if exists postroom_outbox_job;
drop table if exists postroom_outbox_scheduled;
