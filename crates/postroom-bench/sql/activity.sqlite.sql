-- Activity events in one statement; the parameter is a JSON array of them.
insert into user_activity_event (
    event_id, event_name, event_version, occurred_at, anonymous_id, session_id, source,
    request_path, request_method, platform, app_version, locale, properties
)
select
    value ->> 'eventId', value ->> 'eventName', value ->> 'eventVersion', value ->> 'occurredAt', value ->> 'anonymousId',
    value ->> 'sessionId', 'CLIENT', value ->> 'requestPath', value ->> 'requestMethod', value ->> 'platform',
    value ->> 'appVersion', value ->> 'locale', value -> 'properties'
from json_each(?)
where true
on conflict (event_id) do nothing
