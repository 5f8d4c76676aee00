//! Activity events in PostHog's form, and the bodies of requests. Pure.

use postroom::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::UtcOffset;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use uuid::Uuid;

use crate::event::ActivityEvent;

/// Uuids of events whose id is no UUID, of long visitor ids, and of requests are derived in this namespace. Changing it would
/// duplicate events that are sent again.
const NAMESPACE: Uuid = Uuid::from_u128(0x5d1c_7a0e_93b4_4f6e_8a52_c0de_9057_4061);
/// The longest distinct id that PostHog takes.
const DISTINCT_ID_BYTES_MAX: usize = 200;
/// Ids that PostHog does not accept for a person, and ids that many visitors would share.
const SHARED_IDS: [&str; 12] = [
    "0",
    "anonymous",
    "backend",
    "email",
    "false",
    "guest",
    "id",
    "nan",
    "none",
    "null",
    "system",
    "undefined",
];
const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `/i/v1/analytics/events`: an answer for each event.
    V1,
    /// `/batch/`: one answer for all events.
    V0,
}

/// An event in PostHog's form. It depends on nothing but the activity event, so it is the same whenever it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) uuid: Uuid,
    event: String,
    distinct_id: String,
    timestamp: String,
    has_person: bool,
    properties: Map<String, Value>,
    /// About how many bytes it has in a body.
    pub(super) bytes: usize,
}

impl Message {
    pub(super) fn of(event: &ActivityEvent) -> Self {
        let uuid = uuid(&event.event_id);
        let properties = properties(event);
        let bytes = serde_json::to_vec(&properties).map_or(0, |text| text.len()) + 512;
        Self {
            uuid,
            event: event.event_name.clone(),
            distinct_id: distinct_id(event, uuid),
            timestamp: timestamp(event.occurred_at),
            has_person: event.member_id.is_some(),
            properties,
            bytes,
        }
    }

    fn in_v1(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Options {
            disable_skew_correction: bool,
            process_person_profile: bool,
        }
        let options = Options {
            disable_skew_correction: true,
            process_person_profile: self.has_person,
        };
        self.with(Some(options), &self.properties)
    }

    fn in_v0(&self) -> impl Serialize + '_ {
        let mut properties = self.properties.clone();
        properties.insert("$ignore_sent_at".to_owned(), true.into());
        properties.insert("$process_person_profile".to_owned(), self.has_person.into());
        self.with(None::<()>, properties)
    }

    fn with<O, P>(&self, options: Option<O>, properties: P) -> Sent<'_, O, P> {
        Sent {
            event: &self.event,
            uuid: self.uuid,
            distinct_id: &self.distinct_id,
            timestamp: &self.timestamp,
            options,
            properties,
        }
    }
}

/// An event in a body.
#[derive(Serialize)]
struct Sent<'a, O, P> {
    event: &'a str,
    uuid: Uuid,
    distinct_id: &'a str,
    timestamp: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<O>,
    properties: P,
}

/// The body of a request. The time of its creation is that of its newest event, so that a batch that is sent again is the same.
pub(super) fn body(protocol: Protocol, project_api_key: &str, messages: &[&Message]) -> Result<Vec<u8>> {
    #[derive(Serialize)]
    struct V1<'a, M> {
        created_at: Option<&'a str>,
        batch: Vec<M>,
    }
    #[derive(Serialize)]
    struct V0<'a, M> {
        api_key: &'a str,
        batch: Vec<M>,
    }
    let body = match protocol {
        Protocol::V1 => serde_json::to_vec(&V1 {
            created_at: messages.iter().map(|message| message.timestamp.as_str()).max(),
            batch: messages.iter().map(|message| message.in_v1()).collect(),
        }),
        Protocol::V0 => serde_json::to_vec(&V0 {
            api_key: project_api_key,
            batch: messages.iter().map(|message| message.in_v0()).collect(),
        }),
    };
    body.map_err(|source| Error::caused(ErrorKind::Failed, "write the events for PostHog", source))
}

/// The id of a request, derived from its events: the same events have the same id, also after a restart.
pub(super) fn request_id(messages: &[&Message]) -> Uuid {
    let ids: Vec<u8> = messages.iter().flat_map(|message| message.uuid.into_bytes()).collect();
    Uuid::new_v5(&NAMESPACE, &ids)
}

/// The id of the event if it is a UUID, otherwise one that is derived from it. Different ids have different uuids.
fn uuid(event_id: &str) -> Uuid {
    match Uuid::parse_str(event_id) {
        Ok(uuid) if uuid.to_string() == event_id => uuid,
        _ => Uuid::new_v5(&NAMESPACE, event_id.as_bytes()),
    }
}

/// The member, else the visitor, else the event itself. No two of them share an id by accident: a visitor id that is a number
/// could be that of a member.
fn distinct_id(event: &ActivityEvent, uuid: Uuid) -> String {
    if let Some(member_id) = event.member_id {
        return member_id.to_string();
    }
    match event.anonymous_id.as_deref().map(str::trim) {
        None | Some("") => uuid.to_string(),
        Some(id) if SHARED_IDS.contains(&id.to_lowercase().as_str()) => uuid.to_string(),
        Some(id) if id.parse::<i64>().is_ok() => format!("anonymous-{id}"),
        Some(id) if id.len() > DISTINCT_ID_BYTES_MAX => Uuid::new_v5(&NAMESPACE, id.as_bytes()).to_string(),
        Some(id) => id.to_owned(),
    }
}

/// The properties of the event, and its other fields under their names unless a property has the name. A name that begins with
/// `$` is an instruction to PostHog, for example to set a person's properties: an event cannot give one.
fn properties(event: &ActivityEvent) -> Map<String, Value> {
    let fields = [
        ("eventVersion", Some(event.event_version.as_str())),
        ("source", Some(event.source.name())),
        ("sessionId", event.session_id.as_deref()),
        ("requestPath", event.request_path.as_deref()),
        ("requestMethod", event.request_method.as_deref()),
        ("deviceId", event.device_id.as_deref()),
        ("platform", event.platform.as_deref()),
        ("appVersion", event.app_version.as_deref()),
        ("locale", event.locale.as_deref()),
    ];
    let own = event.properties.iter().filter(|(name, _)| !name.starts_with('$'));
    let own = own.map(|(name, value)| (name.clone(), value.clone()));
    let fields = fields
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
    let mut properties: Map<String, Value> = fields.chain(own).collect();
    properties.insert("$geoip_disable".to_owned(), true.into());
    properties
}

/// A time in UTC with milliseconds.
pub(super) fn timestamp(at: OffsetDateTime) -> String {
    let at = at.checked_to_offset(UtcOffset::UTC).unwrap_or(at);
    at.format(MILLISECONDS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn event() -> ActivityEvent {
        ActivityEvent {
            event_id: "0190a2b4-0000-7000-8000-000000000001".to_owned(),
            occurred_at: datetime!(2026-02-18 19:00:00.123_999_9 +9),
            ..ActivityEvent::new("review.created", "v1")
        }
    }

    fn json(protocol: Protocol, events: &[ActivityEvent]) -> Value {
        let messages: Vec<Message> = events.iter().map(Message::of).collect();
        let messages: Vec<&Message> = messages.iter().collect();
        serde_json::from_slice(&body(protocol, "phc_1", &messages).unwrap()).unwrap()
    }

    #[test]
    fn a_request_of_v1_has_options_and_no_key() {
        let member = event()
            .member(42)
            .property("reviewId", 7)
            .property("$set", json!({"email": "a@b"}));
        let expected = json!({
            "created_at": "2026-02-18T10:00:00.123Z",
            "batch": [{
                "event": "review.created",
                "uuid": "0190a2b4-0000-7000-8000-000000000001",
                "distinct_id": "42",
                "timestamp": "2026-02-18T10:00:00.123Z",
                "options": { "disable_skew_correction": true, "process_person_profile": true },
                "properties": { "eventVersion": "v1", "source": "SERVER", "reviewId": 7, "$geoip_disable": true },
            }],
        });
        assert_eq!(json(Protocol::V1, &[member]), expected);
    }

    #[test]
    fn a_request_of_v0_has_the_key_and_the_same_identity() {
        let expected = json!({
            "api_key": "phc_1",
            "batch": [{
                "event": "review.created",
                "uuid": "0190a2b4-0000-7000-8000-000000000001",
                "distinct_id": "0190a2b4-0000-7000-8000-000000000001",
                "timestamp": "2026-02-18T10:00:00.123Z",
                "properties": {
                    "eventVersion": "v1", "source": "SERVER", "$geoip_disable": true,
                    "$ignore_sent_at": true, "$process_person_profile": false,
                },
            }],
        });
        assert_eq!(json(Protocol::V0, &[event()]), expected);
    }

    #[test]
    fn a_property_wins_over_a_field_of_the_same_name() {
        let body = json(Protocol::V1, &[event().property("source", "home")]);
        assert_eq!(body["batch"][0]["properties"]["source"], "home");
    }

    #[test]
    fn a_visitor_is_never_taken_for_a_member_or_for_everybody() {
        let check = |anonymous_id: &str, expected: &str| {
            let visitor = ActivityEvent {
                anonymous_id: Some(anonymous_id.to_owned()),
                ..event()
            };
            assert_eq!(Message::of(&visitor).distinct_id, expected, "{anonymous_id}");
            assert!(!Message::of(&visitor).has_person);
        };
        check(" anon-7 ", "anon-7");
        check("42", "anonymous-42");
        for shared in ["System", "guest", " ", "null", "0"] {
            check(shared, "0190a2b4-0000-7000-8000-000000000001");
        }
        check(
            &"세".repeat(100),
            &Uuid::new_v5(&NAMESPACE, "세".repeat(100).as_bytes()).to_string(),
        );
    }

    #[test]
    fn each_id_has_a_uuid_of_its_own_that_never_changes() {
        let plain = "0190a2b4-0000-7000-8000-00000000000a";
        assert_eq!(uuid(plain).to_string(), plain);
        let others = [plain.to_uppercase(), plain.replace('-', ""), "order-7".to_owned()];
        let uuids: std::collections::HashSet<Uuid> = others.iter().map(|id| uuid(id)).chain([uuid(plain)]).collect();
        assert_eq!(uuids.len(), 4);
        assert_eq!(uuid("order-7").to_string(), "4f9b0484-b494-5f50-9eea-0e223dd30089");
    }

    #[test]
    fn the_id_of_a_request_depends_on_its_events_alone() {
        let (one, other) = (Message::of(&event()), Message::of(&ActivityEvent::new("a", "v1")));
        assert_eq!(request_id(&[&one, &other]), request_id(&[&one.clone(), &other]));
        assert_ne!(request_id(&[&one, &other]), request_id(&[&one]));
    }
}
