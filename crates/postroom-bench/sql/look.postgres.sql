select balance
from bench_account
where id = $1
for update
