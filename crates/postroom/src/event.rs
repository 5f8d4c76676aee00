//! An event: what an application emits. `DomainEvent` is the pure Rust type, `Event` its envelope.
//!
//! Nothing here knows a topic, a broker or a wire format; those are decided at the edge.

pub mod catalog;
pub(crate) mod cause;
pub(crate) mod entry;
pub mod envelope;
pub mod lenient_json;
pub(crate) mod screen;
pub(crate) mod topic;
pub(crate) mod trace;
pub(crate) mod upcast;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::event::cause::Cause;

/// Longest event type, in bytes.
pub const TYPE_BYTES_MAX: usize = 200;
/// Longest aggregate type, aggregate id and source, in bytes.
pub const KEY_BYTES_MAX: usize = 200;
/// Largest payload, in bytes of JSON text: what brokers take by default.
pub const PAYLOAD_BYTES_MAX: usize = 1_000_000;
/// All headers together, names and values, in bytes.
pub const HEADERS_BYTES_MAX: usize = 16_384;
/// The header that counts how many events led to this one.
pub const HOPS: &str = "hops";
/// The header that names the event whose handler emitted this one.
pub const CAUSATION_ID: &str = "causationid";
/// The header that says whether retention may copy the event to the archive. The stores read it. It is not taken over from outside.
pub(crate) const ARCHIVE: &str = "postroomarchive";

/// A fact of your domain, as a plain Rust type.
///
/// ```
/// use postroom::DomainEvent;
///
/// #[derive(serde::Serialize)]
/// struct OrderPlaced { order_id: String, total: i64 }
///
/// impl DomainEvent for OrderPlaced {
///     const TYPE: &'static str = "shop.order.placed.v1";
///     const AGGREGATE_TYPE: &'static str = "order";
///     fn aggregate_id(&self) -> String { self.order_id.clone() }
/// }
/// ```
pub trait DomainEvent: Serialize {
    /// The event's name and version, for example `shop.order.placed.v1`.
    const TYPE: &'static str;
    /// The type of the aggregate, for example `order`.
    const AGGREGATE_TYPE: &'static str;
    /// The id of the aggregate. Events with the same aggregate type and id are delivered in order.
    fn aggregate_id(&self) -> String;
}

/// Header names and values that travel with an event: trace context, causation, whatever the application adds.
pub type Headers = BTreeMap<String, String>;

/// The envelope of an event: identity, key, payload, and where it came from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Unique for ever; `UUIDv7` unless the producer brings its own.
    pub id: Uuid,
    /// The event type, for example `shop.order.placed.v1`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Which service says so.
    pub source: String,
    /// The kind of thing it happened to.
    pub aggregate_type: String,
    /// Which one of them.
    pub aggregate_id: String,
    /// The fact itself, JSON text that is never rewritten on its way.
    pub payload: Box<RawValue>,
    /// Trace context, causation and the application's own.
    #[serde(default)]
    pub headers: Headers,
    /// When it happened.
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
}

impl Event {
    /// The envelope of a domain event: a new id, the time now, and the cause it was emitted under.
    pub fn of<E: DomainEvent + ?Sized>(event: &E) -> Result<Self> {
        let payload = serde_json::value::to_raw_value(event).map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                format!("payload of {}: write as JSON", E::TYPE),
                source,
            )
        })?;
        Self::new(E::TYPE, E::AGGREGATE_TYPE, event.aggregate_id(), payload)
    }

    /// An envelope around JSON text that is already there.
    pub fn new(
        event_type: impl Into<String>,
        aggregate_type: impl Into<String>,
        aggregate_id: impl Into<String>,
        payload: Box<RawValue>,
    ) -> Result<Self> {
        let event = Self {
            id: Uuid::now_v7(),
            event_type: event_type.into(),
            source: String::new(),
            aggregate_type: aggregate_type.into(),
            aggregate_id: aggregate_id.into(),
            payload,
            headers: Cause::current().headers()?,
            occurred_at: clock::now(),
        };
        event.check()?;
        Ok(event)
    }

    /// The same event, reported by this service.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// The same event with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The same event, which leaves the outbox without a copy in the archive: for personal data that must not stay. Whichever
    /// process removes it knows this by its header.
    #[must_use]
    pub fn unarchived(self) -> Self {
        self.header(ARCHIVE, "never")
    }

    /// The key whose events are delivered in order.
    pub fn key(&self) -> Key {
        Key {
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
        }
    }

    /// How many events led to this one.
    pub fn hops(&self) -> u32 {
        self.headers.get(HOPS).and_then(|hops| hops.parse().ok()).unwrap_or(0)
    }

    /// The payload as a Rust type; unknown fields are ignored.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.payload.get()).map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                format!(
                    "payload of {} {}: read as {}",
                    self.event_type,
                    self.id,
                    std::any::type_name::<T>()
                ),
                source,
            )
        })
    }

    /// Checks every limit; the error names the field, the limit and the way out.
    pub fn check(&self) -> Result<()> {
        check_type(&self.event_type)?;
        check_text("aggregate_type", &self.aggregate_type, KEY_BYTES_MAX)?;
        check_text("aggregate_id", &self.aggregate_id, KEY_BYTES_MAX)?;
        if !self.source.is_empty() {
            check_text("source", &self.source, KEY_BYTES_MAX)?;
        }
        check_payload(self.payload.get())?;
        check_headers(&self.headers)?;
        check_time("occurred_at", self.occurred_at)
    }
}

/// Checks that every database can store a time: its year in UTC, which its own offset may hide.
pub(crate) fn check_time(field: &str, at: OffsetDateTime) -> Result<()> {
    let in_utc = at.checked_to_offset(UtcOffset::UTC);
    match in_utc.map(OffsetDateTime::year) {
        Some(1970..=9999) => Ok(()),
        other => Err(Error::invalid(format!(
            "{field} is in the year {}; it must lie between 1970 and 9999, in UTC",
            other.unwrap_or(at.year())
        ))),
    }
}

/// Reads JSON text that came from outside; the error says where it is broken.
pub fn parse_payload(text: &str) -> Result<Box<RawValue>> {
    check_payload(text)?;
    // A full parse, because RawValue alone accepts lone surrogates and any depth; databases do not.
    serde_json::from_str::<serde_json::Value>(text)
        .and_then(|_| RawValue::from_string(text.trim().to_owned()))
        .map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                "payload is not JSON that every store can keep",
                source,
            )
        })
}

fn check_type(event_type: &str) -> Result<()> {
    check_text("event_type", event_type, TYPE_BYTES_MAX)?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    match event_type.chars().find(|c| !legal(*c)) {
        None => Ok(()),
        Some(c) => Err(Error::invalid(format!(
            "event_type {event_type:?} contains {c:?}; use letters, digits, '.', '-', '_' and '/'"
        ))),
    }
}

fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{field} is empty; give 1 to {bytes_max} bytes")));
    }
    if text.len() > bytes_max {
        return Err(Error::invalid(format!(
            "{field} has {} bytes, the limit is {bytes_max}; use a shorter name or a hash of it",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid(format!("{field} contains a NUL character; remove it")));
    }
    Ok(())
}

fn check_payload(text: &str) -> Result<()> {
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "payload has {} bytes, the limit is {PAYLOAD_BYTES_MAX}; store the large part elsewhere and emit its address",
            text.len()
        )));
    }
    if has_nul_escape(text) {
        return Err(Error::invalid(
            "payload contains the NUL character \\u0000, which PostgreSQL cannot store; remove or encode it",
        ));
    }
    Ok(())
}

/// Finds `\u0000` that is an escape, not an escaped backslash followed by `u0000`.
fn has_nul_escape(json: &str) -> bool {
    json.match_indices("\\u0000").any(|(at, _)| {
        let before = json.as_bytes().get(..at).unwrap_or_default();
        before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    })
}

fn check_headers(headers: &Headers) -> Result<()> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(Error::invalid(format!(
            "headers have {bytes} bytes together, the limit is {HEADERS_BYTES_MAX}; move data into the payload"
        )));
    }
    match headers
        .iter()
        .find(|(name, value)| name.contains('\0') || value.contains('\0'))
    {
        None => Ok(()),
        Some((name, _)) => Err(Error::invalid(format!(
            "header {name:?} contains a NUL character; remove it"
        ))),
    }
}

/// The aggregate an event belongs to: events of one key are delivered in the order they were committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// The kind of thing.
    pub aggregate_type: String,
    /// Which one of them.
    pub aggregate_id: String,
}

impl Key {
    /// The shard of `shards` that works this key. FNV-1a and a final mix: stable across versions and processes, so that a
    /// key never changes its shard between two relays, and even for keys that differ in their last digit only.
    pub fn shard(&self, shards: u32) -> u32 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let separator = [0xff_u8];
        for byte in self
            .aggregate_type
            .bytes()
            .chain(separator)
            .chain(self.aggregate_id.bytes())
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        u32::try_from((hash ^ (hash >> 33)) % u64::from(shards.max(1))).unwrap_or(0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.aggregate_type, self.aggregate_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(change: impl FnOnce(&mut Event)) -> Result<()> {
        let mut event = Event::new(
            "shop.order.placed.v1",
            "order",
            "7",
            RawValue::from_string("{}".into()).unwrap(),
        )
        .unwrap();
        change(&mut event);
        event.check()
    }

    #[test]
    fn an_event_within_its_limits_is_accepted() {
        event(|_| ()).unwrap();
    }

    #[test]
    fn each_broken_limit_is_named() {
        let check = |change: fn(&mut Event), says: &str| {
            let error = event(change).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{error} should say {says:?}");
        };
        check(|e| e.event_type = String::new(), "event_type is empty");
        check(|e| e.event_type = "order placed".into(), "contains ' '");
        check(|e| e.event_type = "x".repeat(201), "the limit is 200");
        check(
            |e| e.aggregate_id = "k".repeat(1 << 20),
            "aggregate_id has 1048576 bytes, the limit is 200",
        );
        check(|e| e.aggregate_id = "a\0b".into(), "NUL");
        check(|e| e.aggregate_type = String::new(), "aggregate_type is empty");
        check(
            |e| e.payload = RawValue::from_string(format!("\"{}\"", "x".repeat(10_000_000))).unwrap(),
            "the limit is 1000000",
        );
        check(
            |e| e.payload = RawValue::from_string(r#""\u0000""#.into()).unwrap(),
            "NUL",
        );
        check(
            |e| {
                e.headers.insert("h".into(), "v".repeat(20_000));
            },
            "headers have 20001 bytes",
        );
        check(
            |e| e.occurred_at = time::macros::datetime!(0000-01-01 0:00 UTC),
            "year 0",
        );
        check(
            |e| e.occurred_at = time::macros::datetime!(9999-12-31 23:59:59 -1),
            "between 1970 and 9999, in UTC",
        );
        check(
            |e| e.occurred_at = time::macros::datetime!(1970-01-01 0:30 +1),
            "year 1969",
        );
    }

    #[test]
    fn an_escaped_backslash_before_u0000_is_no_nul() {
        event(|e| e.payload = RawValue::from_string(r#""\\u0000""#.into()).unwrap()).unwrap();
    }

    #[test]
    fn a_payload_from_outside_is_parsed_in_full() {
        for broken in [
            "{",
            r#""\ud800""#,
            "",
            "nope",
            &format!("{}1{}", "[".repeat(1000), "]".repeat(1000)),
        ] {
            assert_eq!(
                parse_payload(broken).unwrap_err().kind(),
                ErrorKind::Invalid,
                "{broken:.20}"
            );
        }
        assert_eq!(
            parse_payload(" 12345678901234567890123 ").unwrap().get(),
            "12345678901234567890123"
        );
    }

    #[test]
    fn a_key_keeps_its_shard() {
        let key = Key {
            aggregate_type: "order".into(),
            aggregate_id: "7".into(),
        };
        assert_eq!(key.shard(1), 0);
        assert_eq!(key.shard(8), key.clone().shard(8));
        let spread: std::collections::HashSet<u32> = (0..100)
            .map(|n| {
                Key {
                    aggregate_type: "order".into(),
                    aggregate_id: n.to_string(),
                }
                .shard(8)
            })
            .collect();
        assert_eq!(spread.len(), 8, "a hundred keys reach all eight shards");
    }
}
