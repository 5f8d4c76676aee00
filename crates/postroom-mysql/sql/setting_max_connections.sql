select cast(@@max_connections as char)
