-- Why `id > cursor` is exact here, and only here:
--
-- 1. SQLite has one writer at a time. A transaction holds the write lock from its first write (BEGIN IMMEDIATE: from its
--    beginning) until it has committed or rolled back, and draws its ids under that lock. So ids are in commit order,
--    and no transaction that is still open holds an id below one that is committed.
-- 2. A reader sees the state after some commit: all of it and of every earlier one. So if it sees an id, it sees every
--    committed id below it: nothing can turn up behind the cursor later.
-- 3. AUTOINCREMENT never draws a committed id again, even when retention has deleted its row. Ids of a transaction that
--    rolled back are drawn again; nobody has seen them.
-- 4. With synchronous = full the commit is on the disk before it is visible (the log is flushed before the index
--    of the log moves on): what is delivered cannot vanish in a power cut.
select
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at,
    created_at
from postroom_outbox
where id > ?1
order by id
limit ?2
