select balance
from bench_account
where id = ?
