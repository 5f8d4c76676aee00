-- Which event stands at a number, if it is still there.
select event_id
from postroom_outbox
where id = ?1
