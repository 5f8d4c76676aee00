-- A chunk's keys in one statement; the parameter is a JSON array of them.
insert into bench_inbox (idempotency_key)
select k.idempotency_key
from json_table(?, '$[*]' columns (idempotency_key varchar(300) path '$')) as k
