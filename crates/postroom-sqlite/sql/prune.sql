delete from postroom_outbox
where id <= ?1
