-- Transactions of this database so far; ours are among them.
select (xact_commit + xact_rollback)::text as queries
from pg_stat_database
where datname = current_database()
