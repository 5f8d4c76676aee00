-- As pooler_begin.sql, with the plans of a reader: see SETTINGS in connect.rs.
begin isolation level read committed;
set local client_min_messages = error;
set local enable_bitmapscan = off;
set local enable_seqscan = off;
set local jit = off;
deallocate all;
