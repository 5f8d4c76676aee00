select current_setting('fsync')
