-- When nothing waits: tells other processes about the last step, whose commit has returned.
update postroom_sequencer
set durable_seq = ?
where shard = 0
  and epoch = ?
