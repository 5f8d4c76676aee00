-- Seconds since 1970, as text.
select cast(extract(epoch from clock_timestamp()) as text)
