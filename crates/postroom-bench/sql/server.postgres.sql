-- A process of the server, if it is on this machine: its backend for this session.
select pg_backend_pid()::text
where inet_server_addr() is null
    or host(inet_server_addr()) = host(inet_client_addr())
