-- When the destination is asked again, by the database's clock. Null: within seconds, as its relay decides.
-- Statements commit one by one and may run again, but MySQL has no `add column if not exists`.
set @make = (
  select if(
    count(*) = 0,
    'alter table postroom_outbox_down add column probe_at datetime(6)',
    'do 0'
  )
  from information_schema.columns
  where table_schema = database() and table_name = 'postroom_outbox_down' and column_name = 'probe_at'
);
prepare make from @make;
execute make;
deallocate prepare make;
