-- Entries of the log, numbered as the sequencer would: as many as the second parameter says, looking as if as many as the
-- first says came before them. Their ids rise, as those of real events do.
insert into postroom_outbox (id, incoming_id, event_id, event_type, aggregate_type, aggregate_id, payload)
select
  s.next_seq + n.n,
  0,
  concat('00000000-0000-7000-8000-', lpad(hex(? + n.n), 12, '0')),
  'postroom.bench.backlog',
  'bench',
  n.n % 1000,
  concat('{"n":', n.n, ',"note":"', repeat('x', 150), '"}')
from postroom_sequencer as s
cross join json_table(concat('[0', repeat(',0', ? - 1), ']'), '$[*]' columns (n for ordinality)) as n
where s.shard = 0
order by n.n
