-- The second look, in a new read view. One view is not enough on MariaDB: it is built by walking the running
-- transactions without a lock, and can show a key's later event without the earlier one (in 3 of 6 hot-key runs).
-- But a transaction leaves that list before it releases its row locks. So whatever an event of the first look waited
-- for had left the list by then and is visible here, with a smaller id, drawn under the same lock. Rows of a key up
-- to its largest id of the first look are therefore all here; what this look alone shows is left for later.
select
  id,
  aggregate_type,
  aggregate_id
from postroom_incoming
where id <= ?
order by id
