-- The log has no gaps, so numbers are counts. What waits for its number is counted up to a bound: it may be a million.
select
  s.next_seq - least(
    s.next_seq,
    greatest(?, coalesce((select min(id) - 1 from postroom_outbox), s.next_seq))
  ) as numbered,
  (select count(*) from (select 1 from postroom_incoming limit 100000) as w) as waiting
from postroom_sequencer as s
where s.shard = 0
