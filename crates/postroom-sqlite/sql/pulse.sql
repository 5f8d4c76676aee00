-- One statement, so that the three belong to one moment. The head is the highest id ever drawn, not max(id), which
-- falls back when retention empties the table. Both clocks are the database's.
select
    coalesce((select seq from sqlite_sequence where name = 'postroom_outbox'), 0) as head,
    (select (julianday(min(due_at)) - julianday('now')) * 86400.0 from postroom_outbox_scheduled) as due_in_s,
    coalesce((select version from postroom_outbox_signal where id = 1), 0) as signal
