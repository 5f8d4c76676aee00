-- The numbers that were given are known from now on. Assignments go from left to right.
update postroom_sequencer
set
  next_seq = next_seq + ?,
  durable_seq = next_seq
where shard = 0
