select cast(@@innodb_doublewrite as char)
