-- Where an event waits, and its dead letters.
-- Statements commit one by one and may run again, but MySQL has no `create index if not exists`.
set @make = (
  select if(count(*) = 0, 'create index postroom_outbox_parked_event on postroom_outbox_parked (event_id)', 'do 0')
  from information_schema.statistics
  where table_schema = database() and index_name = 'postroom_outbox_parked_event'
);
prepare make from @make;
execute make;

set @make = (
  select if(count(*) = 0, 'create index postroom_outbox_failed_event on postroom_outbox_failed (event_id)', 'do 0')
  from information_schema.statistics
  where table_schema = database() and index_name = 'postroom_outbox_failed_event'
);
prepare make from @make;
execute make;
deallocate prepare make;
