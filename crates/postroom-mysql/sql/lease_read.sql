select
  epoch,
  next_seq
from postroom_sequencer
where shard = 0
  and owner = ?
