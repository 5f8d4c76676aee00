-- Exact because the log is gapless and append-only: the sequencer gives numbers in one transaction at a time, so that
-- no row can appear below one that was seen. Only up to what is known to be on disk: by this process's own commits,
-- or by the row that the sequencer wrote after its commit had returned.
select
  id,
  event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload,
  headers,
  occurred_at,
  created_at
from postroom_outbox
where id > ?
  and id <= greatest(?, (select durable_seq from postroom_sequencer where shard = 0))
order by id
limit ?
