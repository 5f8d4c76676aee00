//! Searches, and the port to those that observe them.

use std::fmt;

use time::OffsetDateTime;

/// A search that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchExecuted {
    /// The member, if one is known.
    pub member_id: Option<i64>,
    /// The searched text.
    pub query: String,
    /// How many groups were found.
    pub result_group_count: u64,
    /// How many restaurants were found.
    pub result_restaurant_count: u64,
    /// Whether the search was near a place.
    pub has_location: bool,
    /// When.
    pub occurred_at: OffsetDateTime,
}

/// Observes searches. A search does not wait for its observers, so an observer returns at once and does not fail.
pub trait SearchObserver: fmt::Debug + Send + Sync {
    /// A search was answered.
    fn searched(&self, search: &SearchExecuted);
}
