select
  next_seq,
  durable_seq
from postroom_sequencer
where shard = 0
