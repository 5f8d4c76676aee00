-- Waits for a relay that is releasing the event: it is released or cancelled, never both.
delete from postroom_outbox_scheduled
where event_id = ?
