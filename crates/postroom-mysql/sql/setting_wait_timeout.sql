-- The server's: our sessions have limits of their own.
select cast(@@global.wait_timeout as char)
