set @make = (
  select if(
    count(*) = 1,
    'alter table postroom_outbox_down drop column probe_at',
    'do 0'
  )
  from information_schema.columns
  where table_schema = database() and table_name = 'postroom_outbox_down' and column_name = 'probe_at'
);
prepare make from @make;
execute make;
deallocate prepare make;
