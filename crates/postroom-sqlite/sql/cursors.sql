-- Where every route shard stands; retention stays below all of them.
select position
from postroom_outbox_cursor
