-- Deletes exactly what was numbered, row by row through the log. `where id in (…)` may scan the table, and then it
-- waits for the uncommitted row of any open writer.
delete i
from postroom_outbox as l
straight_join postroom_incoming as i force index (primary) on i.id = l.incoming_id
where l.id > ?
  and l.id <= ?
