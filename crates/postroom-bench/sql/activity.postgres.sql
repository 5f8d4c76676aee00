-- Activity events in one statement; the parameter is a JSON array of them.
insert into user_activity_event (
    event_id, event_name, event_version, occurred_at, anonymous_id, session_id, source,
    request_path, request_method, platform, app_version, locale, properties
)
select
    e."eventId", e."eventName", e."eventVersion", e."occurredAt", e."anonymousId", e."sessionId", 'CLIENT',
    e."requestPath", e."requestMethod", e."platform", e."appVersion", e."locale", e."properties"
from json_to_recordset($1::text::json) as e (
    "eventId" text, "eventName" text, "eventVersion" text, "occurredAt" timestamptz, "anonymousId" text, "sessionId" text,
    "requestPath" text, "requestMethod" text, "platform" text, "appVersion" text, "locale" text, "properties" jsonb
)
on conflict (event_id) do nothing
