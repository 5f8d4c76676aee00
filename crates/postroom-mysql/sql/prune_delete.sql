delete from postroom_outbox
where id <= ?
order by id
limit ?
