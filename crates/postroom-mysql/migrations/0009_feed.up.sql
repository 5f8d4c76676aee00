-- How a broker feeds the route, if one does, and up to where everything it wants from the log has been handled meanwhile.
-- Statements commit one by one and may run again, but MySQL has no `add column if not exists`.
set @make = (
  select if(
    count(*) = 0,
    'alter table postroom_outbox_cursor add column fed_by varchar(200), add column handled_to varchar(100)',
    'do 0'
  )
  from information_schema.columns
  where table_schema = database() and table_name = 'postroom_outbox_cursor' and column_name = 'fed_by'
);
prepare make from @make;
execute make;
deallocate prepare make;
