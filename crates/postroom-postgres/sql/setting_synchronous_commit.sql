select current_setting('synchronous_commit')
