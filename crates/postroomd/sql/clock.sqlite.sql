-- Seconds since 1970, as text.
select printf('%.6f', (julianday('now') - 2440587.5) * 86400)
