//! The canonical activity event, and the events by which it travels through the outbox.

use postroom::{DomainEvent, Error, Event, Result, clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

/// The kind of aggregate of every event that this module emits. Its id is the id of the activity event.
pub(crate) const AGGREGATE_TYPE: &str = "activity";

/// Something that a user did, in one form for every source and every sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityEvent {
    /// Made by the producer, a UUID of version 7 if possible. The same id is the same event.
    pub event_id: String,
    /// For example `review.created`.
    pub event_name: String,
    /// The version of its properties, for example `v1`.
    pub event_version: String,
    /// When the user did it.
    #[serde(with = "rfc3339")]
    #[schemars(with = "String")]
    pub occurred_at: OffsetDateTime,
    /// The member, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_id: Option<i64>,
    /// The visitor, if no member is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_id: Option<String>,
    /// The session of the visitor or member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whether the server or a client reports it.
    #[serde(default)]
    pub source: Source,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_path: Option<String>,
    /// The method of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_method: Option<String>,
    /// The device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// For example `ios`, `android`, `web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The version of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// For example `ko-KR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// Everything else, by the catalogue of the event.
    #[serde(default)]
    pub properties: Map<String, Value>,
}

/// Which side reports an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Source {
    /// A fact of the server, from its outbox or its stream.
    #[default]
    Server,
    /// A client, through the ingest API.
    Client,
}

impl Source {
    /// As it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "SERVER",
            Self::Client => "CLIENT",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "CLIENT" => Self::Client,
            _ => Self::Server,
        }
    }
}

/// The longest text that each column takes, in characters.
const LIMITS: [(&str, usize, Text); 12] = [
    ("eventId", 64, |event| Some(&event.event_id)),
    ("eventName", 100, |event| Some(&event.event_name)),
    ("eventVersion", 20, |event| Some(&event.event_version)),
    ("anonymousId", 100, |event| event.anonymous_id.as_deref()),
    ("sessionId", 100, |event| event.session_id.as_deref()),
    ("requestPath", 255, |event| event.request_path.as_deref()),
    ("requestMethod", 10, |event| event.request_method.as_deref()),
    ("deviceId", 100, |event| event.device_id.as_deref()),
    ("platform", 30, |event| event.platform.as_deref()),
    ("appVersion", 30, |event| event.app_version.as_deref()),
    ("locale", 20, |event| event.locale.as_deref()),
    ("source", 20, |event| Some(event.source.name())),
];

type Text = fn(&ActivityEvent) -> Option<&str>;

/// The longest text that the column of a field takes, in characters.
pub(crate) fn column_max(field: &str) -> usize {
    let limit = LIMITS.iter().find(|(name, ..)| *name == field);
    limit.map_or(0, |(_, max, _)| *max)
}

impl ActivityEvent {
    /// A fact of the server that happens now, with a new id.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            event_id: Uuid::now_v7().to_string(),
            event_name: name.into(),
            event_version: version.into(),
            occurred_at: clock::now(),
            member_id: None,
            anonymous_id: None,
            session_id: None,
            source: Source::Server,
            request_path: None,
            request_method: None,
            device_id: None,
            platform: None,
            app_version: None,
            locale: None,
            properties: Map::new(),
        }
    }

    /// The fact that a domain event reports: it has the id and the time of that event.
    pub fn from_domain(event: &Event, name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            event_id: event.id.to_string(),
            occurred_at: event.occurred_at,
            ..Self::new(name, version)
        }
    }

    /// Sets the member.
    #[must_use]
    pub fn member(mut self, member_id: i64) -> Self {
        self.member_id = Some(member_id);
        self
    }

    /// Adds a property.
    #[must_use]
    pub fn property(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.properties.insert(name.to_owned(), value.into());
        self
    }

    /// Checks every limit; the error names the field, the limit and the length.
    pub fn check(&self) -> Result<()> {
        for (field, name) in [
            ("eventId", &self.event_id),
            ("eventName", &self.event_name),
            ("eventVersion", &self.event_version),
        ] {
            if name.trim().is_empty() {
                return Err(Error::invalid(format!("{field} is empty")));
            }
        }
        if !(1970..=9998).contains(&self.occurred_at.year()) {
            return Err(Error::invalid("occurredAt must be in the years 1970 to 9998"));
        }
        for (field, max, text) in LIMITS {
            let text = text(self).unwrap_or_default();
            let length = text.chars().count();
            if length > max {
                return Err(Error::invalid(format!(
                    "{field} has {length} characters, the limit is {max}"
                )));
            }
            if text.contains('\0') {
                return Err(Error::invalid(format!("{field} contains a NUL character")));
            }
        }
        Ok(())
    }
}

/// An activity event was recorded and waits to be stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ActivityRecorded(pub ActivityEvent);

impl DomainEvent for ActivityRecorded {
    const TYPE: &'static str = "activity.event.recorded.v1";
    const AGGREGATE_TYPE: &'static str = AGGREGATE_TYPE;

    fn aggregate_id(&self) -> String {
        self.0.event_id.clone()
    }
}

/// An activity event was stored and goes to the sinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ActivityStored(pub ActivityEvent);

impl DomainEvent for ActivityStored {
    const TYPE: &'static str = "activity.event.stored.v1";
    const AGGREGATE_TYPE: &'static str = AGGREGATE_TYPE;

    fn aggregate_id(&self) -> String {
        self.0.event_id.clone()
    }
}

/// An operator sends a stored activity event to one sink again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityRedispatched {
    /// The sink that gets it.
    pub sink_type: String,
    /// The event, as it is stored.
    pub event: ActivityEvent,
}

impl DomainEvent for ActivityRedispatched {
    const TYPE: &'static str = "activity.event.redispatched.v1";
    const AGGREGATE_TYPE: &'static str = AGGREGATE_TYPE;

    fn aggregate_id(&self) -> String {
        self.event.event_id.clone()
    }
}

impl ActivityRedispatched {
    /// The type of these events for one sink. The route of another sink does not read them: an answer that comes without asking that
    /// sink would be taken for a sign that it can be reached.
    pub(crate) fn type_for(sink_type: &str) -> String {
        format!("activity.{sink_type}.redispatched.v1")
    }
}

/// An event of this module as it is emitted. No copy goes to the archive, where a member could not be forgotten.
pub(crate) fn event_of(event: &impl DomainEvent) -> Result<Event> {
    Ok(Event::of(event)?.unarchived())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_and_writes_the_names_of_the_specification() {
        let text = r#"{"eventId":"e1","eventName":"review.created","eventVersion":"v1","occurredAt":"2026-02-18T10:00:00Z",
            "memberId":42,"properties":{"reviewId":7}}"#;
        let event: ActivityEvent = serde_json::from_str(text).unwrap();
        assert_eq!((event.member_id, event.source), (Some(42), Source::Server));
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["occurredAt"], "2026-02-18T10:00:00Z");
        assert_eq!(written["source"], "SERVER");
        assert!(written.get("sessionId").is_none());
    }

    #[test]
    fn a_field_that_is_too_long_is_named() {
        let mut event = ActivityEvent::new("review.created", "v1");
        event.check().unwrap();
        event.session_id = Some("세".repeat(101));
        let error = event.check().unwrap_err().report();
        assert!(
            error.contains("sessionId has 101 characters, the limit is 100"),
            "{error}"
        );
        event.session_id = Some("a\0b".to_owned());
        assert!(event.check().is_err());
        event = ActivityEvent::new("review.created", "v1");
        event.occurred_at = OffsetDateTime::UNIX_EPOCH - time::Duration::SECOND;
        assert!(event.check().unwrap_err().report().contains("occurredAt"));
        event = ActivityEvent::new(" ", "v1");
        assert!(event.check().unwrap_err().report().contains("eventName is empty"));
    }
}
