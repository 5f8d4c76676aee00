-- Waits for the step of a living owner (it holds the row), and then finds the lease renewed.
update postroom_sequencer
set
  owner = ?,
  epoch = epoch + 1,
  expires_at = utc_timestamp(6) + interval 5 second
where shard = 0
  and (expires_at < utc_timestamp(6) or is_free_lock(owner))
