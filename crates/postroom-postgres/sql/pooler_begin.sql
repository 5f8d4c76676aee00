-- Behind a transaction pooler a session lasts as long as a transaction, so every use of a connection is one. The server
-- may keep prepared statements of somebody else under the names the driver is about to use. client_min_messages: the
-- driver's own `begin` comes second and would warn each time.
begin;
set local client_min_messages = error;
deallocate all;
