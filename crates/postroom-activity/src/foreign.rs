//! Events that other programs put on the topic, in messages that are no CloudEvents: all in one field as JSON, or one field each.
//!
//! An error becomes the reason of a dead letter, so it names the field and does not repeat the value.

use postroom::{DomainEvent as _, Envelope, Error, Fields, Message, Result, parse_payload};
use serde_json::{Map, Value};
use time::format_description::well_known::Rfc3339;

use crate::event::{ActivityEvent, ActivityRecorded};

/// The fields of an event, and what each must be.
const FIELDS: [(&str, &str); 15] = [
    ("eventId", "must be a text"),
    ("eventName", "must be a text"),
    ("eventVersion", "must be a text"),
    ("occurredAt", "must be a time such as 2026-02-18T10:00:00Z"),
    ("memberId", "must be a whole number"),
    ("anonymousId", "must be a text"),
    ("sessionId", "must be a text"),
    ("source", "must be SERVER or CLIENT"),
    ("requestPath", "must be a text"),
    ("requestMethod", "must be a text"),
    ("deviceId", "must be a text"),
    ("platform", "must be a text"),
    ("appVersion", "must be a text"),
    ("locale", "must be a text"),
    ("properties", "must be a JSON object"),
];

/// The fields that every event has.
const REQUIRED: [&str; 4] = ["eventId", "eventName", "eventVersion", "occurredAt"];

/// Reads the event in a message.
pub(crate) fn read(message: &Message) -> Result<Option<Envelope>> {
    let event = decode(document(message)?)?;
    event.check()?;
    let text =
        serde_json::to_string(&event).map_err(|_unwritable| Error::invalid("the event cannot be written as JSON"))?;
    // It was read in this format.
    let time = event.occurred_at.format(&Rfc3339).unwrap_or_default();
    let recorded = Envelope::new(ActivityRecorded::TYPE, parse_payload(&text)?)
        .attribute("id", &event.event_id)
        .attribute("aggregatetype", ActivityRecorded::AGGREGATE_TYPE)
        .attribute("subject", &event.event_id)
        .attribute("time", time);
    Ok(Some(recorded))
}

/// The fields of the event: the JSON in the field `data` or in the only field, or else the fields of the message.
fn document(message: &Message) -> Result<Map<String, Value>> {
    if !message.body.is_empty() {
        return object("data", &message.body);
    }
    let mut fields = message.fields.iter();
    match (fields.next(), fields.next()) {
        (Some((name, value)), None) if !is_known(name) => object("only", value),
        _ => flat(&message.fields),
    }
}

fn is_known(name: &str) -> bool {
    FIELDS.iter().any(|(known, _)| *known == name)
}

/// The JSON object in a field. Its name is not repeated: any other program has chosen it.
fn object(which: &str, bytes: &[u8]) -> Result<Map<String, Value>> {
    let text =
        std::str::from_utf8(bytes).map_err(|_no_text| Error::invalid(format!("the {which} field is not UTF-8")))?;
    match serde_json::from_str(parse_payload(text)?.get()) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Error::invalid(format!(
            "the {which} field is no JSON object; write the event as JSON, or one field each: eventId, eventName, …"
        ))),
    }
}

/// One field each, as text. An empty text is a field that is not there; names that no event has are ignored.
fn flat(fields: &Fields) -> Result<Map<String, Value>> {
    let mut event = Map::new();
    for (name, must_be) in FIELDS {
        let Some(bytes) = fields.get(name).filter(|bytes| !bytes.is_empty()) else {
            continue;
        };
        let text = std::str::from_utf8(bytes).map_err(|_no_text| wrong(name, "must be UTF-8"))?;
        let value = match name {
            "memberId" => text.parse::<i64>().map_err(|_no_number| wrong(name, must_be))?.into(),
            "properties" => serde_json::from_str(text).map_err(|_no_json| wrong(name, must_be))?,
            _ => Value::from(text),
        };
        event.insert(name.to_owned(), value);
    }
    Ok(event)
}

fn decode(mut fields: Map<String, Value>) -> Result<ActivityEvent> {
    fields.retain(|_, value| !value.is_null());
    for name in REQUIRED {
        if !fields.contains_key(name) {
            return Err(Error::invalid(format!("the field {name} is missing")));
        }
    }
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string();
        let known = FIELDS.iter().find(|(name, _)| *name == path);
        // The error itself repeats the value.
        known.map_or_else(
            || Error::invalid("the event has a field of the wrong type"),
            |(name, must_be)| wrong(name, must_be),
        )
    })
}

fn wrong(name: &str, must_be: &str) -> Error {
    Error::invalid(format!("the field {name} {must_be}"))
}

#[cfg(test)]
mod tests {
    use postroom::{Mark, Origin};

    use super::*;

    fn message(body: &str, fields: &[(&str, &str)]) -> Message {
        Message {
            mark: Mark::Tag(1),
            origin: Origin {
                topic: "domain.user.activity".to_owned(),
                place: "1-0".to_owned(),
            },
            content_type: None,
            attributes: std::collections::BTreeMap::new(),
            fields: Fields::from_iter(fields.iter().copied()),
            body: body.as_bytes().to_vec(),
            given_up: None,
        }
    }

    const DOCUMENT: &str = r#"{"eventId":"e-1","eventName":"review.created","eventVersion":"v1",
        "occurredAt":"2026-02-18T10:00:00.123Z","memberId":42,"anonymousId":null,"properties":{"reviewId":1},"more":1}"#;

    const FLAT: [(&str, &str); 7] = [
        ("eventId", "e-1"),
        ("eventName", "review.created"),
        ("eventVersion", "v1"),
        ("occurredAt", "2026-02-18T10:00:00.123Z"),
        ("memberId", "42"),
        ("anonymousId", ""),
        ("properties", r#"{"reviewId":1}"#),
    ];

    #[test]
    fn every_form_of_an_event_is_the_same_event() {
        let ignored = [&FLAT[..], &[("traceId", "x")]].concat();
        let forms = [
            message(DOCUMENT, &[]),
            message(DOCUMENT, &[("partition", "7")]),
            message("", &[("payload", DOCUMENT)]),
            message("", &FLAT),
            message("", &ignored),
        ];
        let read = |message: &Message| read(message).unwrap().unwrap();
        let first = read(&forms[0]);
        assert_eq!(first.attributes["id"], "e-1");
        assert_eq!(first.attributes["time"], "2026-02-18T10:00:00.123Z");
        let event: ActivityEvent = serde_json::from_str(first.data.get()).unwrap();
        assert_eq!((event.member_id, event.anonymous_id.as_deref()), (Some(42), None));
        assert_eq!(event.properties["reviewId"], 1);
        for form in &forms {
            let other = read(form);
            assert_eq!(
                (&other.attributes, other.data.get()),
                (&first.attributes, first.data.get())
            );
        }
    }

    #[test]
    fn what_is_broken_is_named_and_not_repeated() {
        let check = |message: &Message, says: &str| {
            let report = read(message).unwrap_err().report();
            assert!(report.contains(says), "{report}");
            assert!(!report.contains("SECRET"), "{report}");
        };
        let with = |name: &'static str, value: &'static str| {
            let others = FLAT.into_iter().filter(|(known, _)| *known != name);
            let fields: Vec<(&str, &str)> = others.chain([(name, value)]).collect();
            message("", &fields)
        };
        check(&with("eventId", ""), "the field eventId is missing");
        check(&with("eventName", ""), "the field eventName is missing");
        check(
            &with("occurredAt", "SECRET"),
            "the field occurredAt must be a time such as",
        );
        check(&with("memberId", "SECRET"), "the field memberId must be a whole number");
        check(
            &with("properties", "[\"SECRET\"]"),
            "the field properties must be a JSON object",
        );
        check(
            &with("properties", "SECRET"),
            "the field properties must be a JSON object",
        );
        check(&with("source", "SECRET"), "the field source must be SERVER or CLIENT");
        check(&with("properties", r#"{"a":"\u0000"}"#), "NUL");
        check(&message("", &[]), "the field eventId is missing");
        check(&message("", &[("SECRET", "SECRET")]), "JSON");
        check(&message("[1]", &[]), "the data field is no JSON object");
        check(
            &message(
                r#"{"eventId":1,"eventName":"SECRET","eventVersion":"v1","occurredAt":"x"}"#,
                &[],
            ),
            "eventId must be a text",
        );
    }
}
