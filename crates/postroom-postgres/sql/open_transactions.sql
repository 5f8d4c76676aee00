-- Sessions of this database inside a transaction, and transactions that wait for COMMIT PREPARED; the latter have
-- always written. The text is cut: it is shown to people.
with waits as materialized (
    select pg_blocking_pids(pid) as blockers
    from pg_stat_activity
    where wait_event_type = 'Lock'
)
select
    session,
    age_s,
    query,
    has_written,
    blocks,
    holds_locks
from (
    select
        pid::text as session,
        extract(epoch from clock_timestamp() - xact_start)::float8 as age_s,
        left(query, 500) as query,
        backend_xid is not null as has_written,
        (select count(*) from waits w where a.pid = any(w.blockers)) as blocks,
        backend_xid is not null or exists (
            select
            from pg_locks l
            where l.pid = a.pid and l.locktype = 'relation' and l.granted and l.mode <> 'AccessShareLock'
        ) as holds_locks
    from pg_stat_activity a
    where datname = current_database()
        and backend_type = 'client backend'
        and xact_start is not null
        and pid <> pg_backend_pid()
    union all
    select
        'prepared ' || gid,
        extract(epoch from clock_timestamp() - prepared)::float8,
        format('prepare transaction %L', gid),
        true,
        -- What waits for a prepared transaction waits for process 0.
        (select count(*) from waits w where 0 = any(w.blockers)),
        true
    from pg_prepared_xacts
    where database = current_database()
) t
order by age_s desc
