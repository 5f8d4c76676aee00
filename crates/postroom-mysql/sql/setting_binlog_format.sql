select if(@@log_bin, @@binlog_format, 'no binary log')
