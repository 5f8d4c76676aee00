-- Sessions of this database inside a transaction, and transactions that wait for COMMIT PREPARED; the latter have
-- always written. The text is cut: it is shown to people.
select
    session,
    age_s,
    query,
    has_written
from (
    select
        pid::text as session,
        extract(epoch from clock_timestamp() - xact_start)::float8 as age_s,
        left(query, 500) as query,
        backend_xid is not null as has_written
    from pg_stat_activity
    where datname = current_database()
        and backend_type = 'client backend'
        and xact_start is not null
        and pid <> pg_backend_pid()
    union all
    select
        'prepared ' || gid,
        extract(epoch from clock_timestamp() - prepared)::float8,
        format('prepare transaction %L', gid),
        true
    from pg_prepared_xacts
    where database = current_database()
) t
order by age_s desc
