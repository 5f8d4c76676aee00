-- Where an event waits, and its dead letters.
create index if not exists outbox_parked_event on postroom.outbox_parked (event_id);
create index if not exists outbox_failed_event on postroom.outbox_failed (event_id);

-- Which keys of this array are in the inbox. The plan of a prepared statement is made while the inbox is small, reads all of it, and is
-- kept until somebody analyses the table: by then a busy subscriber has grown it a thousandfold. This one uses the index.
create function postroom.handled(keys json) returns setof text
language sql
stable
set enable_seqscan = off
as $$
    select idempotency_key
    from postroom.event_handled
    where idempotency_key = any (array(select json_array_elements_text(keys)))
$$;
