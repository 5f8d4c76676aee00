-- First of all in a step, before anything is read: while this row is locked nobody can take over, and after a take-over
-- the epoch has changed. Ids read before the lock would be numbered twice or leave gaps.
select
  epoch,
  next_seq
from postroom_sequencer
where shard = 0
for update
