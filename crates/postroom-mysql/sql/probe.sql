-- What a pulse asks when nothing happened: one statement, no lock, no write.
-- The sequencer's lease is free when it ran out or when its owner's session is gone: that session holds a user lock
-- by its owner's name. Taking it early is safe, since the epoch fences and not the clock.
select
  exists (select 1 from postroom_incoming) as is_waiting,
  s.epoch,
  s.next_seq,
  s.durable_seq,
  (s.expires_at < utc_timestamp(6) or is_free_lock(s.owner)) as is_free,
  (select version from postroom_outbox_signal where id = 1) as signal_version,
  (select timestampdiff(microsecond, utc_timestamp(6), min(due_at)) from postroom_outbox_scheduled) as due_in_us
from postroom_sequencer as s
where s.shard = 0
