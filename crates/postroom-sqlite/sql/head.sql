-- The highest id ever drawn and committed. Not max(id): that falls back when retention empties the table.
select coalesce((select seq from sqlite_sequence where name = 'postroom_outbox'), 0)
