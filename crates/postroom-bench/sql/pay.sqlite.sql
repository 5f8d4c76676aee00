update bench_account
set balance = balance - ?
where id = ?
