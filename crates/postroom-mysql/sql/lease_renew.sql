-- Last in a step. durable_seq is what was numbered before this step: those commits have returned. InnoDB shows rows
-- before they are on disk, so what this very transaction numbers is told to other processes one step later.
update postroom_sequencer
set
  owner = ?,
  next_seq = ?,
  durable_seq = ?,
  expires_at = utc_timestamp(6) + interval 5 second
where shard = 0
  and epoch = ?
