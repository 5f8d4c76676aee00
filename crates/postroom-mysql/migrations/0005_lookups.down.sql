set @make = (
  select if(count(*) > 0, 'drop index postroom_outbox_failed_event on postroom_outbox_failed', 'do 0')
  from information_schema.statistics
  where table_schema = database() and index_name = 'postroom_outbox_failed_event'
);
prepare make from @make;
execute make;

set @make = (
  select if(count(*) > 0, 'drop index postroom_outbox_parked_event on postroom_outbox_parked', 'do 0')
  from information_schema.statistics
  where table_schema = database() and index_name = 'postroom_outbox_parked_event'
);
prepare make from @make;
execute make;
deallocate prepare make;
