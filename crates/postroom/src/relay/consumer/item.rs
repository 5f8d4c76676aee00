//! A message as a consumer works it, and what becomes of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::broker::fields::Fields;
use crate::broker::{Mark, Message, UNREADABLE};
use crate::clock;
use crate::error::Result;
use crate::event::entry::Entry;
use crate::event::envelope::{Envelope, JSON};
use crate::event::screen::Screen;
use crate::event::{Event, KEY_BYTES_MAX};
use crate::policy::filter::Filter;
use crate::relay::delivery::Plan;
use crate::relay::judge::Settlement;
use crate::state::parked::{self, Parked, Parking};
use crate::store::table::storable;
use crate::subscriber::Subscriber;

/// How much of an unreadable message is kept.
const UNREADABLE_BYTES_MAX: usize = 100_000;

/// A message as it is worked.
#[derive(Debug)]
pub(super) struct Item {
    /// As it came, or as the subscriber's screen has left it.
    pub(super) message: Message,
    /// Numbered by its place among the messages taken together.
    pub(super) entry: Entry,
    pub(super) content: Content,
}

/// The content of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// An event; the subscriber may not listen to its type.
    Event,
    /// Nothing, by the subscriber's reader.
    Ignored,
    /// The reason why no handler gets a message: it is no event, or its broker has given it up.
    Broken(String),
}

impl Item {
    pub(super) fn of((at, message): (usize, Message), filter: &Filter, subscriber: &Subscriber) -> Self {
        let screen = subscriber.screen.as_deref();
        let read = read(&message, subscriber).and_then(|event| clean(event, filter, screen));
        let entry = |event: Event| Entry {
            id: i64::try_from(at).unwrap_or(i64::MAX),
            event,
            created_at: clock::now(),
        };
        match read {
            Ok(Some(event)) => {
                let given_up = message.given_up.clone().filter(|_| filter.matches(&event.event_type));
                let entry = entry(event);
                Self {
                    message: if screen.is_some() {
                        message_of(&entry, message)
                    } else {
                        message
                    },
                    entry,
                    content: given_up.map_or(Content::Event, Content::Broken),
                }
            }
            Ok(None) => Self {
                entry: entry(stand_in(&message)),
                message,
                content: Content::Ignored,
            },
            Err(error) => {
                let stand_in = stand_in(&message); // the same one, whatever a screen removes
                let message = screen.map_or_else(|| message.clone(), |screen| screened(&message, screen));
                let payload = raw_copy(&message);
                let reason = error.report(); // it may repeat a value of the message
                Self {
                    entry: entry(Event { payload, ..stand_in }),
                    message,
                    content: Content::Broken(
                        screen.map_or_else(|| reason.clone(), |screen| screen.clean_said(&reason)),
                    ),
                }
            }
        }
    }
}

/// The message with nothing but its event, which a screen has cleaned.
fn message_of(entry: &Entry, message: Message) -> Message {
    let envelope = Envelope::of(entry);
    Message {
        content_type: Some(JSON.to_owned()),
        attributes: envelope.attributes,
        fields: Fields::default(),
        body: envelope.data.get().as_bytes().to_vec(),
        ..message
    }
}

/// The event in a message; `None` if the subscriber's reader ignores the message.
fn read(message: &Message, subscriber: &Subscriber) -> Result<Option<Event>> {
    match &subscriber.reader {
        Some(reader) if !message.is_cloud_event() => reader.event(message),
        _ => message.event().map(Some),
    }
}

/// The event without what only this relay may write, and cleaned if the subscriber listens to it.
fn clean(event: Option<Event>, filter: &Filter, screen: Option<&dyn Screen>) -> Result<Option<Event>> {
    let Some(mut event) = event else {
        return Ok(None);
    };
    parked::remove_came_from(&mut event);
    if let Some(screen) = screen.filter(|_| filter.matches(&event.event_type)) {
        screen.clean(&mut event)?;
    }
    Ok(Some(event))
}

/// A message that is no event, cleaned part by part.
fn screened(message: &Message, screen: &dyn Screen) -> Message {
    let text = |name: &str, value: &str| {
        let cleaned = screen.clean_raw(name, value.as_bytes());
        String::from_utf8_lossy(&cleaned).into_owned()
    };
    let fields = message.fields.iter();
    let attributes = message.attributes.iter();
    Message {
        content_type: message.content_type.as_deref().map(|kind| text("content-type", kind)),
        attributes: attributes
            .map(|(name, value)| (screen.clean_said(name), text(name, value)))
            .collect(),
        fields: fields
            .map(|(name, value)| (screen.clean_said(name), screen.clean_raw(name, value)))
            .collect(),
        body: screen.clean_raw("data", &message.body),
        ..message.clone()
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

/// A stand-in for a message that is no event, so that it can be kept, shown and discarded like one. Without its content yet.
fn stand_in(message: &Message) -> Event {
    let mut key = message.origin.to_string();
    key.truncate(key.floor_char_boundary(KEY_BYTES_MAX));
    let mut again = [key.as_bytes(), &message.body].concat(); // brought again, it is the same one
    for (name, value) in message.fields.iter() {
        again.extend_from_slice(name.as_bytes());
        again.extend_from_slice(value);
    }
    Event {
        id: Uuid::new_v5(&Uuid::NAMESPACE_URL, &again),
        event_type: UNREADABLE.to_owned(),
        source: String::new(),
        aggregate_type: "message".to_owned(),
        aggregate_id: key,
        payload: RawValue::NULL.to_owned(),
        headers: crate::event::Headers::new(),
        occurred_at: clock::now(),
    }
}

/// The content of a message as JSON, up to a limit for its body and for all its fields.
fn raw_copy(message: &Message) -> Box<RawValue> {
    let mut left = UNREADABLE_BYTES_MAX;
    let fields = message.fields.iter().map_while(|(name, value)| {
        left = left.checked_sub(name.len())?;
        let kept = value.get(..left).unwrap_or(value);
        left -= kept.len();
        Some((name, String::from_utf8_lossy(kept)))
    });
    let fields: BTreeMap<&str, Cow<'_, str>> = fields.collect();
    let body = message.body.get(..UNREADABLE_BYTES_MAX).unwrap_or(&message.body);
    let payload = json!({
        "content_type": message.content_type,
        "attributes": message.attributes,
        "fields": fields,
        "body": String::from_utf8_lossy(body),
    });
    let text = payload.to_string().replace("\\u0000", "\\ufffd"); // no database keeps a NUL
    RawValue::from_string(text).unwrap_or_else(|_never| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Origin;
    use crate::error::Error;
    use crate::store::tx::Tx;

    fn message(place: &str, fields: &[(&str, &str)]) -> Message {
        Message {
            mark: Mark::Tag(1),
            origin: Origin {
                topic: "activity".to_owned(),
                place: place.to_owned(),
            },
            content_type: None,
            attributes: BTreeMap::new(),
            fields: fields.iter().copied().collect(),
            body: Vec::new(),
            given_up: None,
        }
    }

    fn read_id(message: &Message) -> Result<Option<Envelope>> {
        let id = message.fields.text("id").unwrap_or_default();
        match id {
            "panic" => unreachable!("a reader that panics"),
            "odd" => Err(Error::invalid("odd")),
            _ => Ok(Some(
                Envelope::new("a.b", RawValue::NULL.to_owned()).attribute("id", id),
            )),
        }
    }

    fn item(message: Message) -> Item {
        async fn ignore(_tx: &mut Tx, _event: &Event) -> Result<()> {
            Ok(())
        }
        let subscriber = Subscriber::matching("s", ["**"], ignore).reads(read_id);
        Item::of((0, message), &subscriber.filter, &subscriber)
    }

    #[test]
    fn a_message_is_identified_by_its_id_or_by_its_place() {
        let id = |place: &str, id: &str| {
            let item = item(message(place, &[("id", id)]));
            (item.content == Content::Event, item.entry.event.id)
        };
        assert_eq!(id("1-1", "7"), id("1-2", "7"), "the same id in two places");
        assert_ne!(id("1-1", "7"), id("1-1", "8"));
        assert_eq!(id("1-1", ""), id("1-1", ""), "brought again");
        assert_ne!(id("1-1", ""), id("1-2", ""), "two messages without an id");
        assert!(id("1-1", "").0);
        assert_eq!(id("1-1", "odd"), id("1-1", "odd"), "no event, brought again");
    }

    #[test]
    fn a_reader_that_fails_or_gets_too_much_breaks_only_its_message() {
        let broken = |fields: &[(&str, &str)]| match item(message("1-1", fields)).content {
            Content::Broken(reason) => reason,
            other => format!("{other:?}"),
        };
        assert_eq!(broken(&[("id", "odd")]), "odd");
        assert!(broken(&[("id", "panic")]).contains("the reader panicked"));
        let large = "x".repeat(1_000_001);
        assert!(broken(&[("id", "7"), ("large", &large)]).contains("1 fields too many"));
    }

    #[test]
    fn a_raw_copy_is_limited() {
        let large = "x".repeat(90_000);
        let copy = raw_copy(&message("1-1", &[("a", &large), ("b", &large), ("c", "1")]));
        assert!((100_000..101_000).contains(&copy.get().len()), "{}", copy.get().len());
    }
}
