//! A message as a consumer works it, and what becomes of it.

use serde_json::json;
use uuid::Uuid;

use crate::broker::{Mark, Message, UNREADABLE};
use crate::clock;
use crate::event::entry::Entry;
use crate::event::{Event, KEY_BYTES_MAX};
use crate::policy::filter::Filter;
use crate::relay::delivery::Plan;
use crate::relay::judge::Settlement;
use crate::state::parked::{self, Parked, Parking};
use crate::store::table::storable;

/// How much of an unreadable message is kept.
const UNREADABLE_BYTES_MAX: usize = 100_000;

/// A message as it is worked.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// Numbered by its place among the messages taken together.
    pub(super) entry: Entry,
    /// Why no handler gets it: it is no event, or its broker has given it up.
    pub(super) broken: Option<String>,
}

impl Item {
    pub(super) fn of((at, message): (usize, Message), filter: &Filter) -> Self {
        let (event, broken) = match message.event() {
            Ok(mut event) => {
                parked::remove_came_from(&mut event);
                let is_for_us = filter.matches(&event.event_type);
                (event, message.given_up.clone().filter(|_| is_for_us))
            }
            Err(error) => (unreadable(&message), Some(error.report())),
        };
        let entry = Entry {
            id: i64::try_from(at).unwrap_or(i64::MAX),
            event,
            created_at: clock::now(),
        };
        Self { message, entry, broken }
    }
}

pub(super) fn marks(items: &[Item]) -> Vec<Mark> {
    items.iter().map(|item| item.message.mark.clone()).collect()
}

/// Takes messages that no handler may get out of a settlement: those that are passed are not delivered and leave nothing; those that are
/// rejected become dead letters, although they stand behind a parked entry of their lane.
pub(super) fn by_plan(items: &[Item], plans: &[Plan], settlement: &mut Settlement) {
    let first = items.first().map_or(0, |item| item.entry.id);
    let plan = |row: &Parked| plans.get(usize::try_from(row.entry.id - first).ok()?);
    let settled = plans.iter().take(settlement.settled);
    let passed = settled.filter(|plan| **plan == Plan::Pass).count();
    let parked = settlement
        .park
        .extract_if(.., |row| plan(row) == Some(&Plan::Pass))
        .count();
    settlement.delivered -= (passed - parked) as u64;
    let rejected = settlement.park.extract_if(.., |row| {
        row.state == Parking::Wait && matches!(plan(row), Some(Plan::Reject(_)))
    });
    let dead = rejected.map(|row| {
        let error = match plan(&row) {
            Some(Plan::Reject(reason)) => Some(storable(reason)),
            _ => None,
        };
        Parked {
            attempts: 1,
            error,
            failed_at: Some(clock::now()),
            ..row
        }
    });
    settlement.dead.extend(dead);
}

/// A stand-in for a message that is no event, so that it can be kept, shown and discarded like one.
fn unreadable(message: &Message) -> Event {
    let body = message.body.get(..UNREADABLE_BYTES_MAX).unwrap_or(&message.body);
    let payload = json!({
        "content_type": message.content_type,
        "attributes": message.attributes,
        "body": String::from_utf8_lossy(body),
    });
    let text = payload.to_string().replace("\\u0000", "\\ufffd"); // no database keeps a NUL
    let payload = serde_json::value::RawValue::from_string(text);
    let mut key = message.origin.to_string();
    key.truncate(key.floor_char_boundary(KEY_BYTES_MAX));
    let again = [key.as_bytes(), &message.body].concat(); // brought again, it is the same one
    Event {
        id: Uuid::new_v5(&Uuid::NAMESPACE_URL, &again),
        event_type: UNREADABLE.to_owned(),
        source: String::new(),
        aggregate_type: "message".to_owned(),
        aggregate_id: key,
        payload: payload.unwrap_or_else(|_never| serde_json::value::RawValue::NULL.to_owned()),
        headers: crate::event::Headers::new(),
        occurred_at: clock::now(),
    }
}
