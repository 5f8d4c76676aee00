-- Ids have no holes, so a difference counts. Below the lowest id left there is nothing to count.
select max(0, head - max(?1, lowest - 1))
from (
    select
        coalesce((select seq from sqlite_sequence where name = 'postroom_outbox'), 0) as head,
        coalesce((select min(id) from postroom_outbox), (select seq + 1 from sqlite_sequence where name = 'postroom_outbox'), 1) as lowest
)
