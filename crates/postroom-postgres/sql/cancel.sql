-- Waits for a relay that is releasing the event: it is released or cancelled, never both.
delete from postroom.outbox_scheduled
where event_id = $1
