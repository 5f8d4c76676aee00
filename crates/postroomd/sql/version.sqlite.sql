select sqlite_version()
