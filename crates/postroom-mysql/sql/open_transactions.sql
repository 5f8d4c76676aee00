-- Start times are in the server's own time zone, whatever the session's is.
select
  cast(t.trx_mysql_thread_id as signed) as session,
  timestampdiff(microsecond, convert_tz(t.trx_started, 'SYSTEM', '+00:00'), utc_timestamp(6)) as age_us,
  left(coalesce(t.trx_query, concat('idle in its transaction: ', p.user, '@', p.host)), 500) as query,
  t.trx_rows_modified > 0 as has_written,
  -- MySQL has no such table.
  0 /*M!100000 + (
    select count(*) from information_schema.innodb_lock_waits as w where w.blocking_trx_id = t.trx_id
  ) */ as blocks,
  t.trx_rows_modified > 0 or t.trx_rows_locked > 0 as holds_locks
from information_schema.innodb_trx as t
left join information_schema.processlist as p on p.id = t.trx_mysql_thread_id
where t.trx_mysql_thread_id not in (0, connection_id())
  -- A session that has chosen another database writes there.
  and (p.db is null or p.db = database())
order by t.trx_started
limit 100
