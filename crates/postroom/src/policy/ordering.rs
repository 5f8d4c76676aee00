//! Which entries must not overtake which, and the lanes that follow from it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::event::Key;
use crate::event::entry::Entry;

/// Which entries must not overtake which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// One lane: nothing passes a failed entry until it succeeds or is given up.
    Strict,
    /// A failed entry holds only its own key.
    #[default]
    Key,
    /// Each entry is retried alone.
    None,
}

/// Entries of one lane are delivered one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The one lane of a strict route.
    Single,
    /// The lane of a key.
    Key(Key),
    /// A lane of its own.
    Entry(i64),
}

/// Lanes that stand still.
pub(crate) type Lanes = HashSet<Lane>;

impl Ordering {
    /// The lane of an entry.
    pub fn lane(self, entry: &Entry) -> Lane {
        match self {
            Self::Strict => Lane::Single,
            Self::Key => Lane::Key(entry.event.key()),
            Self::None => Lane::Entry(entry.id),
        }
    }
}
