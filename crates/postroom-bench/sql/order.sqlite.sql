insert into bench_order (account_id, amount, note)
values (?, ?, ?)
