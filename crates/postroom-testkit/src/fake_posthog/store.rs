//! Events as PostHog stores them.

use std::collections::BTreeMap;

use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime};

/// An event as a request contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// The uuid.
    pub uuid: String,
    /// The timestamp.
    pub timestamp: String,
    /// The name.
    pub event: String,
    /// The distinct id.
    pub distinct_id: String,
}

impl Seen {
    pub(super) fn of(event: &Value) -> Self {
        let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            uuid: text("uuid").trim().to_owned(),
            timestamp: text("timestamp"),
            event: text("event"),
            distinct_id: text("distinct_id").trim().to_owned(),
        }
    }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The event as it was sent last.
    pub seen: Seen,
    /// Its time, after the clock of the sender was corrected unless the event forbids that.
    pub at: OffsetDateTime,
    /// Its properties.
    pub properties: Value,
    /// Whether it belongs to the profile of a person.
    pub has_profile: bool,
}

/// Stored events. PostHog removes duplicates by project, day, name, distinct id and uuid.
#[derive(Debug, Default)]
pub(super) struct Store(BTreeMap<Key, Stored>);

type Key = (String, Date, String, String, String);

impl Store {
    pub(super) fn put(&mut self, project: &str, row: Stored) {
        let Seen {
            uuid,
            event,
            distinct_id,
            ..
        } = row.seen.clone();
        self.0
            .insert((project.to_owned(), row.at.date(), event, distinct_id, uuid), row);
    }

    pub(super) fn rows(&self) -> Vec<Stored> {
        self.0.values().cloned().collect()
    }
}

/// A time in RFC 3339, in UTC.
pub(super) fn time_of(text: &str) -> Option<OffsetDateTime> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(at.to_offset(time::UtcOffset::UTC))
}
