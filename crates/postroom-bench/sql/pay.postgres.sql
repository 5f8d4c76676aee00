update bench_account
set balance = balance - $1
where id = $2
