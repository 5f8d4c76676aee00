-- The entry that the slowest running replay reads next; retention stays below it.
select min(next_id)
from postroom_outbox_replay
where state = 'running'
