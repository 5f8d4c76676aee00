-- How a broker feeds the route, if one does, and up to where everything it wants from the log has been handled meanwhile.
alter table postroom_outbox_cursor add column fed_by text;
alter table postroom_outbox_cursor add column handled_to text;
