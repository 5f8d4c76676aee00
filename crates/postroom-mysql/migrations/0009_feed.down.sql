set @make = (
  select if(
    count(*) = 1,
    'alter table postroom_outbox_cursor drop column handled_to, drop column fed_by',
    'do 0'
  )
  from information_schema.columns
  where table_schema = database() and table_name = 'postroom_outbox_cursor' and column_name = 'fed_by'
);
prepare make from @make;
execute make;
deallocate prepare make;
