-- How many the server allows to users who are no administrators.
select (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int)::text
