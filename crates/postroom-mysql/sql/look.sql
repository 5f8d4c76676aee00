-- The first look. A row is found by being there, not by its place, so that a transaction may commit as late as it
-- likes: ids that were drawn early and committed late are found by a later step, rolled-back ids never.
-- A plain read: it waits for no open transaction.
select
  id,
  aggregate_type,
  aggregate_id
from postroom_incoming
order by id
limit ?
