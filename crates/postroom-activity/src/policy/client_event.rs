//! Reads one event of a request.

use serde::Deserialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::serde::rfc3339;

use super::Drop;
use crate::event::{ActivityEvent, Source};

/// The longest id, in characters.
const EVENT_ID_MAX: usize = 64;

/// An event that a client has sent, before any decision about it.
#[derive(Clone, Debug)]
pub(crate) struct ClientEvent {
    pub(crate) event: ActivityEvent,
    /// Fields that an event of a client does not have.
    pub(crate) removed: Vec<String>,
}

/// Something that is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// Its id, if it has a usable one.
    pub(crate) event_id: Option<String>,
    pub(crate) reason: Drop,
}

/// The fields that a client may send. The source is not among them: an event of a client is a client's event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    event_id: String,
    event_name: String,
    event_version: String,
    #[serde(with = "rfc3339")]
    occurred_at: OffsetDateTime,
    member_id: Option<i64>,
    anonymous_id: Option<String>,
    session_id: Option<String>,
    request_path: Option<String>,
    request_method: Option<String>,
    device_id: Option<String>,
    platform: Option<String>,
    app_version: Option<String>,
    locale: Option<String>,
    #[serde(default)]
    properties: Option<Map<String, Value>>,
}

/// Reads an event from JSON.
pub(crate) fn read(text: &str) -> Result<ClientEvent, Unreadable> {
    let event_id = read_id(text).ok_or(Unreadable {
        event_id: None,
        reason: Drop::MissingEventId,
    });
    let (mut removed, mut track) = (Vec::new(), serde_path_to_error::Track::new());
    let mut json = serde_json::Deserializer::from_str(text);
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let fields = serde_ignored::deserialize(tracked, |path| removed.push(path.to_string()));
    match fields {
        Ok(fields) => {
            event_id?;
            Ok(ClientEvent {
                event: event(fields),
                removed,
            })
        }
        Err(error) => Err(Unreadable {
            event_id: event_id?.into(),
            reason: Drop::Malformed(format!("{}: {error}", track.path())),
        }),
    }
}

/// The id of an event, also if nothing else of it can be read.
fn read_id(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Id {
        event_id: String,
    }
    let Id { event_id } = serde_json::from_str(text).ok()?;
    let is_usable = !event_id.trim().is_empty()
        && event_id.chars().count() <= EVENT_ID_MAX
        && !event_id.contains(|letter: char| letter.is_control());
    is_usable.then_some(event_id)
}

fn event(fields: Fields) -> ActivityEvent {
    ActivityEvent {
        event_id: fields.event_id,
        event_name: fields.event_name,
        event_version: fields.event_version,
        occurred_at: fields.occurred_at,
        member_id: fields.member_id,
        anonymous_id: fields.anonymous_id,
        session_id: fields.session_id,
        source: Source::Client,
        request_path: fields.request_path,
        request_method: fields.request_method,
        device_id: fields.device_id,
        platform: fields.platform,
        app_version: fields.app_version,
        locale: fields.locale,
        properties: fields.properties.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, event_id: Option<&str>, details: &str, words: &str) {
        let unreadable = read(text).unwrap_err();
        assert_eq!(unreadable.event_id.as_deref(), event_id, "{text}");
        assert_eq!(unreadable.reason.details(), details, "{text}");
        let message = unreadable.reason.message().unwrap();
        assert!(message.contains(words), "{text}: {message}");
    }

    #[test]
    fn a_mistake_names_its_field() {
        check(
            r#"{"eventId":"e1"}"#,
            Some("e1"),
            "malformed_event",
            "missing field `eventName`",
        );
        let with = |field: &str| {
            format!(
                r#"{{"eventId":"e1","eventName":"n","eventVersion":"v1","occurredAt":"2026-11-18T10:00:00Z",{field}}}"#
            )
        };
        assert!(read(&with(r#""memberId":42"#)).is_ok());
        check(
            &with(r#""memberId":"42""#),
            Some("e1"),
            "malformed_event",
            "memberId: invalid type: string",
        );
        check(
            &with(r#""properties":[]"#),
            Some("e1"),
            "malformed_event",
            "properties: invalid type",
        );
        check(
            r#"{"eventId":"e1","eventName":"n","eventVersion":"v1","occurredAt":"today"}"#,
            Some("e1"),
            "malformed_event",
            "occurredAt: ",
        );
    }

    #[test]
    fn an_event_without_a_usable_id_is_not_read() {
        for id in [
            r#""""#,
            r#"" ""#,
            "7",
            "null",
            r#""a\u0000b""#,
            r#""\ud800""#,
            &format!("{:?}", "x".repeat(65)),
        ] {
            check(
                &format!(r#"{{"eventId":{id}}}"#),
                None,
                "missing_event_id",
                "1 to 64 characters",
            );
        }
        check("7", None, "missing_event_id", "1 to 64 characters");
    }
}
