-- Where every route shard stands, and up to where a broker has brought everything; retention stays below all of them.
select position
from postroom_outbox_cursor
union all
select handled_to
from postroom_outbox_cursor
where handled_to is not null
