-- Whether sessions of other users run here whose transactions this user may not see.
select
    current_user::text as me,
    exists (
        select
        from pg_stat_activity
        where datname = current_database()
            and usename <> current_user
            and pid <> pg_backend_pid()
    ) and not pg_has_role(current_user, 'pg_read_all_stats', 'usage') as is_hidden
