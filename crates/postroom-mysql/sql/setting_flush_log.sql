select cast(@@innodb_flush_log_at_trx_commit as char)
