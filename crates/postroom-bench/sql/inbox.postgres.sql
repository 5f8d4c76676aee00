-- A chunk's keys in one statement; the parameter is a JSON array of them.
insert into bench_inbox (idempotency_key)
select jsonb_array_elements_text($1::text::jsonb)
