-- How a broker feeds the route, if one does, and up to where everything it wants from the log has been handled meanwhile.
alter table postroom.outbox_cursor
    add column fed_by text,
    add column handled_to text;
