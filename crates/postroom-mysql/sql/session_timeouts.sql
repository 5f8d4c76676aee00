-- A paused process must not keep the lease row locked: its session ends after wait_timeout, its transaction with it.
set session
  wait_timeout = 6,
  innodb_lock_wait_timeout = 1,
  lock_wait_timeout = 5
