-- Seconds since 1970, as text.
select cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) / 1000000 as char)
