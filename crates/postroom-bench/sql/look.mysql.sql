select balance
from bench_account
where id = ?
for update
