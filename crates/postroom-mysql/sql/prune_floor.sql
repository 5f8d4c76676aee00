-- The last entry that every cursor has passed and no running replay still wants, and that is on disk.
select
  least(
    f.durable_seq,
    coalesce(
      (
        select min(cast(substring_index(p.position, ':', -1) as signed))
        from (
          select position
          from postroom_outbox_cursor
          union all
          select handled_to
          from postroom_outbox_cursor
          where handled_to is not null
        ) as p
      ),
      0 -- nobody reads yet: whoever comes first begins with everything
    ),
    coalesce(
      (select min(next_id) - 1 from postroom_outbox_replay where state = 'running'),
      f.durable_seq
    )
  )
from (
  select greatest(?, durable_seq) as durable_seq
  from postroom_sequencer
  where shard = 0
) as f
