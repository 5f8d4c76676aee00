//! The origin of parked rows: why a row was parked, and the place of a message on its broker.

use std::borrow::Cow;

use super::Parked;
use crate::broker::Origin;
use crate::event::Event;
use crate::event::entry::Entry;
use crate::state::renumber;

/// The header that stores where a message came from.
const CAME_FROM: &str = "postroomorigin";
/// The numbers of messages begin here. The numbers of the log are smaller.
const MESSAGES: i64 = 1 << 52;

/// The number under which a message is kept.
pub(crate) fn number_of_message(count: i64) -> i64 {
    MESSAGES + count
}

/// Whether an entry with this number was a message. A row that made room for another has a number that is smaller by a multiple of
/// [`renumber::STEP`].
fn is_message(id: i64) -> bool {
    id.rem_euclid(renumber::STEP) >= MESSAGES
}

/// Takes the place of a message out of an entry that was stored. A header of this name in an entry of the log stays.
pub(crate) fn take_came_from(entry: &mut Entry) -> Option<Origin> {
    match is_message(entry.id) {
        true => remove_came_from(&mut entry.event)?.parse().ok(),
        false => None,
    }
}

/// Removes the header from an event that was received: only this module writes it.
pub(crate) fn remove_came_from(event: &mut Event) -> Option<String> {
    event.headers.remove(CAME_FROM)
}

/// The reason why a row was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkedBy {
    /// The shard worker, with an entry of the log.
    Log,
    /// A consumer, with a message of a broker.
    Broker,
    /// An operator who retries a dead letter.
    Retry,
    /// The replay with this number.
    Replay(i64),
}

/// The name of a replay's rows begins so; the replay's number follows.
pub(super) const REPLAY: &str = "replay";

impl ParkedBy {
    pub(super) fn named(name: &str) -> Self {
        let replay = name.strip_prefix(REPLAY).map(|rest| rest.trim_start_matches(':'));
        match (name, replay) {
            (_, Some(replay_id)) => Self::Replay(replay_id.parse().unwrap_or_default()),
            ("dead", _) => Self::Retry,
            ("broker", _) => Self::Broker,
            _ => Self::Log,
        }
    }

    /// Whether an operator asked for it.
    pub(super) fn is_requested(self) -> bool {
        matches!(self, Self::Retry | Self::Replay(_))
    }

    /// Its name in the column `origin`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Log => "log".to_owned(),
            Self::Broker => "broker".to_owned(),
            Self::Retry => "dead".to_owned(),
            Self::Replay(replay_id) => format!("{REPLAY}:{replay_id}"),
        }
    }
}

impl Parked {
    /// The event as its row stores it: a header keeps where a message came from.
    pub(crate) fn stored_event(&self) -> Cow<'_, Event> {
        match &self.came_from {
            Some(origin) => Cow::Owned(self.entry.event.clone().header(CAME_FROM, origin.to_string())),
            None => Cow::Borrowed(&self.entry.event),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::state::parked::Parking;

    #[test]
    fn a_reason_comes_back_from_its_name() {
        for by in [ParkedBy::Log, ParkedBy::Broker, ParkedBy::Retry, ParkedBy::Replay(17)] {
            assert_eq!(ParkedBy::named(&by.name()), by);
        }
        assert!(ParkedBy::named("replay:17").is_requested() && ParkedBy::named("dead").is_requested());
        assert!(!ParkedBy::named("broker").is_requested() && !ParkedBy::named("log").is_requested());
    }

    fn entry(id: i64, header: Option<&str>) -> Entry {
        let mut event = Event::new("t.v1", "t", "1", RawValue::NULL.to_owned()).unwrap();
        event
            .headers
            .extend(header.map(|value| (CAME_FROM.to_owned(), value.to_owned())));
        Entry {
            id,
            event,
            created_at: time::OffsetDateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_place_of_a_message_is_stored_and_taken_out_again() {
        let origin: Origin = "orders#partition 2, offset 17".parse().unwrap();
        for id in [number_of_message(3), number_of_message(3) - renumber::STEP] {
            let mut row = Parked::untried(entry(id, None), Parking::Retry);
            row.came_from = Some(origin.clone());
            let mut stored = Entry {
                event: row.stored_event().into_owned(),
                ..row.entry.clone()
            };
            assert_eq!(take_came_from(&mut stored), Some(origin.clone()));
            assert_eq!(
                stored.event.headers, row.entry.event.headers,
                "a handler does not see it"
            );
        }
    }

    #[test]
    fn a_header_of_that_name_in_the_log_stays() {
        let mut stored = entry(7, Some("orders#partition 2, offset 17"));
        assert_eq!(take_came_from(&mut stored), None);
        assert_eq!(stored.event.headers.len(), 1);
    }
}
