drop function postroom.cancel(uuid);
drop function postroom.schedule(text, text, text, jsonb, timestamptz, jsonb, uuid, text);
