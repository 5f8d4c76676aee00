//! The envelope an event wears between programs: CloudEvents 1.0, in binary mode (attributes beside the data) or structured
//! mode (one JSON document). Each transport says how attributes are spelled on its wire; what they are is said here, once.
//!
//! Reading is tolerant: attributes we do not know become headers, and what a foreign producer leaves out is filled in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::event::entry::Entry;
use crate::event::writer::Writer;
use crate::event::{ARCHIVE, Event, Headers, parse_payload};

/// The media type of the data.
pub const JSON: &str = "application/json";
/// The media type of a message in structured mode.
pub const CLOUDEVENTS_JSON: &str = "application/cloudevents+json";
/// The media type of many events in one message.
pub const CLOUDEVENTS_BATCH_JSON: &str = "application/cloudevents-batch+json";

/// The source of events that name none: the attribute must not be empty.
pub const SOURCE: &str = "postroom";
/// The attribute that holds, as JSON, those headers whose names CloudEvents does not allow.
const HEADERS: &str = "headers";
/// So long is the attribute `sequence` of ours.
const SEQUENCE_DIGITS: usize = 19;
/// The header that keeps the id of an event that did not come from us.
pub(crate) const FOREIGN_ID: &str = "ceid";

/// How an event becomes a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A CloudEvent with its attributes beside the data, in the message's headers.
    #[default]
    Binary,
    /// A CloudEvent with its attributes around the data: one JSON document.
    Structured,
    /// No CloudEvent: a message of a form of its own.
    Own(Writer),
}

/// An event in its envelope.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Context attributes by name; `specversion` and `datacontenttype` are among them.
    pub attributes: BTreeMap<String, String>,
    /// The data.
    pub data: Box<RawValue>,
}

/// The context attributes of an entry, in no order and without copies of what the event has already; its number is the attribute
/// `sequence`, which sorts as text.
pub fn attributes(entry: &Entry) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let event = &entry.event;
    let source = source_of(event);
    let id = foreign_id_of(event).map_or_else(|| event.id.to_string().into(), Cow::from);
    let ours: [(&str, Cow<'_, str>); 10] = [
        ("specversion", "1.0".into()),
        ("id", id),
        ("type", event.event_type.as_str().into()),
        ("source", source.into()),
        ("subject", event.aggregate_id.as_str().into()),
        ("time", event.occurred_at.format(&Rfc3339).unwrap_or_default().into()),
        ("datacontenttype", JSON.into()),
        ("aggregatetype", event.aggregate_type.as_str().into()),
        ("aggregateid", event.aggregate_id.as_str().into()),
        ("sequence", format!("{:0SEQUENCE_DIGITS$}", entry.id).into()),
    ];
    let is_plain = |name: &str| is_attribute_name(name) && !is_ours(name);
    let plain = event.headers.iter().filter(move |(name, _)| is_plain(name));
    let plain = plain.map(|(name, value)| (name.as_str(), Cow::from(value)));
    let odd: BTreeMap<_, _> = event.headers.iter().filter(|(name, _)| !is_plain(name)).collect();
    let odd = (!odd.is_empty()).then(|| (HEADERS, serde_json::to_string(&odd).unwrap_or_default().into()));
    plain.chain(ours).chain(odd)
}

/// The source, as the envelope has it.
pub(crate) fn source_of(event: &Event) -> &str {
    if event.source.is_empty() { SOURCE } else { &event.source }
}

impl Envelope {
    /// An envelope for a message that was no CloudEvent, by the reader of a subscriber: the type, the data, and
    /// [`Envelope::attribute`] for the rest.
    pub fn new(event_type: impl Into<String>, data: Box<RawValue>) -> Self {
        Self {
            attributes: BTreeMap::from([("type".to_owned(), event_type.into())]),
            data,
        }
    }

    /// The same with one more attribute, for example `id`, `source`, `subject` (the aggregate's id), `aggregatetype` or `time`
    /// (`2026-01-31T12:00:00Z`). An attribute that CloudEvents does not know becomes a header.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Fills in what a reader has left out from the attributes of the event, as the message's sender has kept them in a header. They
    /// are of this event if they name its id, and its source if the reader has said one.
    pub(crate) fn in_context(mut self, context: Option<&str>) -> Self {
        let kept: BTreeMap<String, String> = context
            .and_then(|context| serde_json::from_str(context).ok())
            .unwrap_or_default();
        let is_equal = |name: &str| self.attributes.get(name) == kept.get(name);
        if kept.contains_key("id") && is_equal("id") && (is_equal("source") || !self.attributes.contains_key("source"))
        {
            for (name, value) in kept {
                self.attributes.entry(name).or_insert(value);
            }
        }
        self
    }

    /// Fills in what CloudEvents requires and a reader has left out: the topic is the source, the message's place the id.
    pub(crate) fn completed(mut self, topic: &str, place: &str) -> Self {
        let required = [("specversion", "1.0"), ("source", topic), ("id", place)];
        for (name, value) in required {
            let attribute = self.attributes.entry(name.to_owned()).or_default();
            if attribute.is_empty() {
                value.clone_into(attribute);
            }
        }
        self
    }

    /// The envelope of an entry.
    pub fn of(entry: &Entry) -> Self {
        let owned = attributes(entry).map(|(name, value)| (name.to_owned(), value.into_owned()));
        Self {
            attributes: owned.collect(),
            data: entry.event.payload.clone(),
        }
    }

    /// The whole as one JSON document.
    pub fn to_structured(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            attributes: &'a BTreeMap<String, String>,
            data: &'a RawValue,
        }
        // Strings and JSON text that was parsed before: this cannot fail.
        serde_json::to_vec(&Document {
            attributes: &self.attributes,
            data: &self.data,
        })
        .unwrap_or_default()
    }

    /// Reads a JSON document.
    pub fn from_structured(document: &[u8]) -> Result<Self> {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(document).map_err(|source| {
            // Without the text of the source, which repeats a part of the document.
            Error::invalid(format!(
                "the message is not a CloudEvent in structured mode: a JSON object is expected (line {}, column {})",
                source.line(),
                source.column()
            ))
        })?;
        let mut attributes = BTreeMap::new();
        let mut data = None;
        for (name, value) in fields {
            match name.as_str() {
                "data" => data = Some(parse_payload(value.get())?),
                "data_base64" => return Err(no_bytes()),
                _ => attributes.extend(attribute_text(&value).map(|text| (name, text))),
            }
        }
        Self::checked(attributes, data)
    }

    /// Reads many: a JSON array of documents.
    pub fn from_batch(documents: &[u8]) -> Result<Vec<Self>> {
        let documents: Vec<Box<RawValue>> = serde_json::from_slice(documents).map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                "the message is not a batch of CloudEvents: a JSON array is expected",
                source,
            )
        })?;
        let read = |(at, document): (usize, Box<RawValue>)| {
            Self::from_structured(document.get().as_bytes())
                .map_err(|source| Error::caused(ErrorKind::Invalid, format!("event {at} of the batch"), source))
        };
        documents.into_iter().enumerate().map(read).collect()
    }

    /// Reads attributes that stood beside the data.
    pub fn from_binary(attributes: BTreeMap<String, String>, data: &[u8]) -> Result<Self> {
        let data = std::str::from_utf8(data).map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                "the data is not UTF-8; send JSON, or encode it in JSON",
                source,
            )
        })?;
        let data = if data.is_empty() {
            None
        } else {
            Some(parse_payload(data)?)
        };
        Self::checked(attributes, data)
    }

    fn checked(attributes: BTreeMap<String, String>, data: Option<Box<RawValue>>) -> Result<Self> {
        let version = attributes.get("specversion").map_or("", String::as_str);
        if version != "1.0" {
            return Err(Error::invalid(format!(
                "specversion is {version:?}; CloudEvents \"1.0\" is understood"
            )));
        }
        for name in ["id", "source", "type"] {
            if attributes.get(name).is_none_or(String::is_empty) {
                return Err(Error::invalid(format!(
                    "the attribute {name} is missing; CloudEvents 1.0 requires it"
                )));
            }
        }
        if attributes.get("datacontenttype").is_some_and(|kind| !is_json(kind)) {
            return Err(no_bytes());
        }
        let data = data.map_or_else(|| parse_payload("null"), Ok)?;
        Ok(Self { attributes, data })
    }

    /// The number the producer's store gave it, if it says.
    pub fn sequence(&self) -> Option<i64> {
        self.attributes.get("sequence")?.parse().ok()
    }

    /// Whether one of us has emitted it: then its id is unique whatever the source. Others may have taken `sequence` away, or
    /// written their own, when they passed it on. A foreign event keeps its id, in an attribute of its own.
    fn is_ours(&self) -> bool {
        let get = |name: &str| self.attributes.get(name);
        let is_kept = get(FOREIGN_ID).is_some() && get(FOREIGN_ID) == get("id");
        self.has_our_sequence() && !is_kept
    }

    /// Whether `sequence` is the number of a store of ours.
    fn has_our_sequence(&self) -> bool {
        let is_number = |text: &String| text.len() == SEQUENCE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        let has = |name: &str| self.attributes.contains_key(name);
        self.attributes.get("sequence").is_some_and(is_number) && has("aggregatetype") && has("aggregateid")
    }

    /// The event inside.
    pub fn into_event(mut self) -> Result<Event> {
        let is_ours = self.is_ours();
        if self.has_our_sequence() {
            self.attributes.remove("sequence");
        }
        let mut take = |name: &str| self.attributes.remove(name).filter(|value| !value.is_empty());
        let (id, source) = (take("id").unwrap_or_default(), take("source").unwrap_or_default());
        let event_type = take("type").unwrap_or_default();
        let subject = take("subject");
        let time = take("time");
        let aggregate_type = take("aggregatetype").unwrap_or_else(|| domain(&event_type).to_owned());
        let aggregate_id = take("aggregateid").or_else(|| take("partitionkey")).or(subject);
        let mut headers: Headers = match take(HEADERS) {
            Some(odd) => {
                serde_json::from_str(&odd).unwrap_or_else(|_not_ours| Headers::from([(HEADERS.to_owned(), odd)]))
            }
            None => Headers::new(),
        };
        for ours in ["specversion", "datacontenttype"] {
            self.attributes.remove(ours);
        }
        headers.extend(self.attributes);
        headers.remove(ARCHIVE); // only the process that records an event decides about its archive
        let event = Event {
            id: if is_ours { Uuid::parse_str(&id).ok() } else { None }.unwrap_or_else(|| foreign_id(&source, &id)),
            aggregate_id: aggregate_id.unwrap_or_else(|| id.clone()),
            event_type,
            aggregate_type,
            source,
            payload: self.data,
            headers,
            occurred_at: time.as_deref().map_or_else(|| Ok(clock::now()), read_time)?,
        };
        let is_foreign = event.id.to_string() != id.to_ascii_lowercase();
        let event = if is_foreign {
            event.header(FOREIGN_ID, id)
        } else {
            event
        };
        event.check()?;
        Ok(event)
    }
}

/// The part of an event type that names its domain: `order` in `loopers.order.paid.v1`.
pub(crate) fn domain(event_type: &str) -> &str {
    let mut segments = event_type.split('.');
    let first = segments.next().unwrap_or(event_type);
    segments.next().unwrap_or(first)
}

/// CloudEvents are one when source and id are equal: an id that depends on both.
fn foreign_id(source: &str, id: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{source}\n{id}").as_bytes())
}

/// The id that the producer of a foreign event gave it; another program knows the event by that.
fn foreign_id_of(event: &Event) -> Option<&str> {
    let id = event.headers.get(FOREIGN_ID)?;
    (foreign_id(&event.source, id) == event.id).then_some(id)
}

fn read_time(text: &str) -> Result<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(|source| {
        Error::caused(
            ErrorKind::Invalid,
            format!("time is {text:?}; write it like 2026-01-31T12:00:00Z"),
            source,
        )
    })
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Names with a meaning of their own, which a header of the application must not take.
fn is_ours(name: &str) -> bool {
    const OURS: [&str; 13] = [
        "specversion",
        "id",
        "type",
        "source",
        "subject",
        "time",
        "datacontenttype",
        "data",
        "aggregatetype",
        "aggregateid",
        "sequence",
        "partitionkey",
        HEADERS,
    ];
    OURS.contains(&name)
}

/// An attribute as text: JSON may hold booleans and numbers too. Null is an attribute that is not there.
fn attribute_text(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => Some(text),
        Ok(Value::Null) => None,
        Ok(_) | Err(_) => Some(value.get().to_owned()),
    }
}

fn is_json(media_type: &str) -> bool {
    let kind = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == JSON || kind == "text/json" || kind.ends_with("+json")
}

fn no_bytes() -> Error {
    Error::invalid("the data is not JSON; send datacontenttype application/json, or encode the bytes in JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn entry() -> Entry {
        let payload = parse_payload(r#"{"total":12345678901234567890.10,"name":"홍길동"}"#).unwrap();
        let mut event = Event::new("loopers.order.paid.v1", "Order", "42", payload).unwrap();
        event.id = "0190f5fe-7c00-7a00-8000-000000000001".parse().unwrap();
        event.source = "commerce-api".to_owned();
        event.occurred_at = datetime!(2026-01-31 12:00 UTC);
        event = event
            .header("traceparent", "00-1-2-01")
            .header("X-Tenant", "acme")
            .header("id", "mine");
        Entry {
            id: 17,
            event,
            created_at: datetime!(2026-01-31 12:00:01 UTC),
        }
    }

    fn same(event: &Event, other: &Event) {
        let shown = |event: &Event| serde_json::to_string_pretty(event).unwrap();
        assert_eq!(shown(event), shown(other));
    }

    #[test]
    fn an_event_comes_back_from_both_modes() {
        let envelope = Envelope::of(&entry());
        let expected = concat!(
            r#"{"aggregateid":"42","aggregatetype":"Order","datacontenttype":"application/json","#,
            r#""headers":"{\"X-Tenant\":\"acme\",\"id\":\"mine\"}","id":"0190f5fe-7c00-7a00-8000-000000000001","#,
            r#""sequence":"0000000000000000017","source":"commerce-api","specversion":"1.0","subject":"42","#,
            r#""time":"2026-01-31T12:00:00Z","traceparent":"00-1-2-01","type":"loopers.order.paid.v1","#,
            r#""data":{"total":12345678901234567890.10,"name":"홍길동"}}"#,
        );
        assert_eq!(String::from_utf8(envelope.to_structured()).unwrap(), expected);
        let structured = Envelope::from_structured(&envelope.to_structured()).unwrap();
        assert_eq!(structured.sequence(), Some(17));
        same(&structured.into_event().unwrap(), &entry().event);
        let binary = Envelope::from_binary(envelope.attributes.clone(), envelope.data.get().as_bytes()).unwrap();
        same(&binary.into_event().unwrap(), &entry().event);
    }

    #[test]
    fn a_foreign_event_is_understood() {
        let document = br#"{"specversion":"1.0","id":"A-1","source":"/shop","type":"com.example.sale","data":{"n":1},
            "subject":"cart-9","retries":3,"flag":true,"nothing":null,"dataschema":"https://example.com/s"}"#;
        let event = Envelope::from_structured(document).unwrap().into_event().unwrap();
        assert_eq!(event.key().to_string(), "example/cart-9");
        assert_eq!(event.payload.get(), r#"{"n":1}"#);
        let headers: Vec<String> = event
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            headers,
            ["ceid=A-1", "dataschema=https://example.com/s", "flag=true", "retries=3"]
        );
        let again = Envelope::from_structured(document).unwrap().into_event().unwrap();
        assert_eq!(again.id, event.id, "source and id make it the same event");
        let mut elsewhere = Envelope::from_structured(document).unwrap();
        elsewhere.attributes.insert("source".to_owned(), "/other".to_owned());
        assert_ne!(elsewhere.into_event().unwrap().id, event.id);
        let of = |source: &str, sequence: &str| {
            let id = "0190f5fe-7c00-7a00-8000-000000000001";
            let document =
                format!(r#"{{"specversion":"1.0","id":"{id}","source":"{source}","type":"t","sequence":{sequence}}}"#);
            let event = Envelope::from_structured(document.as_bytes()).unwrap().into_event();
            event.unwrap()
        };
        for sequence in ["null", "7", r#""0000000000000000007""#] {
            let ids = ["/billing", "/shipping"].map(|source| of(source, sequence).id);
            assert_ne!(
                ids[0], ids[1],
                "a UUID is no better than another id, nor is one with {sequence}"
            );
        }
        assert_eq!(of("/billing", "7").headers["sequence"], "7");
    }

    /// An event as it arrives: the attributes that are given, beside those that every CloudEvent has.
    fn arrived(id: &str, source: &str, others: &[(&str, &str)]) -> Event {
        let all = [
            ("specversion", "1.0"),
            ("id", id),
            ("source", source),
            ("type", "a.b.v1"),
        ];
        let attributes = all.iter().chain(others);
        let attributes = attributes.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let envelope = Envelope::from_binary(attributes.collect(), b"{}").unwrap();
        envelope.into_event().unwrap()
    }

    fn published(event: Event) -> Envelope {
        Envelope::of(&Entry { event, ..entry() })
    }

    #[test]
    fn a_foreign_event_keeps_its_id_when_it_is_published_again() {
        for id in ["A-1", "0190F5FE-7c00-7a00-8000-000000000001"] {
            let first = arrived(id, "/till", &[("subject", "s")]);
            let again = published(first.clone());
            assert_eq!(again.attributes["id"], id);
            assert_eq!(again.attributes["source"], "/till");
            let copy = again.clone().into_event().unwrap();
            assert_eq!(copy.id, first.id, "as we publish it");
            let plain = arrived(&again.attributes["id"], &again.attributes["source"], &[]);
            assert_eq!(plain.id, first.id, "as somebody passes it on, without what is ours");
            assert_eq!(published(copy).attributes["id"], id, "once more");
        }
    }

    #[test]
    fn an_event_without_our_sequence_is_known_by_source_and_id() {
        let ours = entry().event.id;
        for sequence in [None, Some("5")] {
            let mut envelope = published(entry().event);
            envelope.attributes.remove("sequence");
            envelope
                .attributes
                .extend(sequence.map(|text| ("sequence".to_owned(), text.to_owned())));
            let source = envelope.attributes["source"].clone();
            let event = envelope.into_event().unwrap();
            assert_eq!(event.id, foreign_id(&source, &ours.to_string()));
            assert_eq!(
                event.headers[FOREIGN_ID],
                ours.to_string(),
                "by which the log can tell whether it is ours"
            );
        }
    }

    #[test]
    fn an_app_header_that_looks_like_a_foreign_id_changes_no_id() {
        let event = entry().event.header(FOREIGN_ID, "mine");
        let envelope = published(event.clone());
        assert_eq!(envelope.attributes["id"], event.id.to_string());
        assert_eq!(envelope.into_event().unwrap().id, event.id);
    }

    #[test]
    fn what_is_not_a_cloudevent_is_refused_with_the_reason() {
        let check = |document: &str, words: &str| {
            let refused = Envelope::from_structured(document.as_bytes()).and_then(Envelope::into_event);
            let report = refused.unwrap_err().report();
            assert!(report.contains(words), "{document}: {report}");
        };
        check("[]", "a JSON object is expected");
        check("{}", "specversion is \"\"");
        check(r#"{"specversion":"0.3"}"#, "specversion is \"0.3\"");
        check(
            r#"{"specversion":"1.0","id":"1","source":"s"}"#,
            "the attribute type is missing",
        );
        check(
            r#"{"specversion":"1.0","id":"1","source":"s","type":"a b"}"#,
            "contains ' '",
        );
        check(
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","time":"now"}"#,
            "time is \"now\"",
        );
        check(
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AA=="}"#,
            "not JSON",
        );
        check(
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"text/plain","data":"x"}"#,
            "not JSON",
        );
        check(
            r#"{"specversion":"1.0","id":"1","source":"s","type":"t","data":"\ud800"}"#,
            "JSON that every store",
        );
    }

    #[test]
    fn the_domain_is_the_second_segment() {
        let check = |event_type: &str, expected: &str| assert_eq!(domain(event_type), expected);
        check("loopers.order.paid.v1", "order");
        check("order.paid", "paid");
        check("ping", "ping");
    }
}
