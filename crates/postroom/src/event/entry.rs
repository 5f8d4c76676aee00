//! An event in the log, and its place there.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use time::OffsetDateTime;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;

/// An event in the outbox.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Its number in reading order within a key; `id` is the event's where both are shown.
    #[serde(rename = "entry_id")]
    pub id: i64,
    /// The emitted event.
    #[serde(flatten)]
    pub event: Event,
    /// When its row was written, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Entry {
    /// About how many bytes the entry takes in memory.
    pub(crate) fn weight(&self) -> usize {
        let event = &self.event;
        let headers = event.headers.iter();
        let headers: usize = headers
            .map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len())
            .sum();
        let key = event.event_type.len() + event.source.len() + event.aggregate_type.len() + event.aggregate_id.len();
        size_of::<Self>() + event.payload.get().len() + headers + key
    }
}

/// A place in the outbox. Opaque: only the store that made it knows what its numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The window's lower border, where a store reads in windows.
    pub from: i64,
    /// The window's upper border while inside one, otherwise 0. A store without windows may keep something else here; it takes
    /// no part in the order of positions.
    pub to: i64,
    /// The last entry taken, inside the window.
    pub id: i64,
}

impl Position {
    /// Before the first entry.
    pub const START: Self = Self { from: 0, to: 0, id: 0 };

    /// Whether a reader that has come here has read everything up to what [`Outbox::head`] once answered. For no other pair of
    /// positions the answer means anything.
    pub(crate) fn has_reached(self, head: Self) -> bool {
        (self.from, self.id) >= (head.from, head.id)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.from, self.to, self.id)
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut numbers = text.split(':').map(str::parse::<i64>);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(from)), Some(Ok(to)), Some(Ok(id)), None) => Ok(Self { from, to, id }),
            _ => Err(Error::new(
                ErrorKind::Failed,
                format!("{text:?} is not a position of the outbox"),
            )),
        }
    }
}
