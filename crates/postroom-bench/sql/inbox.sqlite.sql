-- A chunk's keys in one statement; the parameter is a JSON array of them.
insert into bench_inbox (idempotency_key)
select value
from json_each(?)
