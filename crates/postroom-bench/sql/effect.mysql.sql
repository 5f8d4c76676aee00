insert into bench_effect (event_id, account_id, amount)
values (?, ?, ?)
