-- Activity events in one statement; the parameter is a JSON array of them.
insert into user_activity_event (
    event_id, event_name, event_version, occurred_at, anonymous_id, session_id, source,
    request_path, request_method, platform, app_version, locale, properties
)
select
    e.event_id, e.event_name, e.event_version, cast(replace(trim(trailing 'Z' from e.occurred_at), 'T', ' ') as datetime(6)),
    e.anonymous_id, e.session_id, 'CLIENT', e.request_path, e.request_method, e.platform, e.app_version, e.locale, e.properties
from json_table(?, '$[*]' columns (
    event_id varchar(64) path '$.eventId',
    event_name varchar(100) path '$.eventName',
    event_version varchar(20) path '$.eventVersion',
    occurred_at varchar(40) path '$.occurredAt',
    anonymous_id varchar(100) path '$.anonymousId',
    session_id varchar(100) path '$.sessionId',
    request_path varchar(255) path '$.requestPath',
    request_method varchar(10) path '$.requestMethod',
    platform varchar(30) path '$.platform',
    app_version varchar(30) path '$.appVersion',
    locale varchar(20) path '$.locale',
    properties json path '$.properties'
)) as e
