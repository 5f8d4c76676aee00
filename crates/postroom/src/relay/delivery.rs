//! One delivery step: each entry has a plan, entries are delivered, and each gets the receipt that belongs to it.
//!
//! The shard worker delivers entries of the log and parked rows in this way, the consumer messages of a broker. They differ in where
//! the entries come from, and in how progress is kept ([`crate::relay::settle`]).

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::destination::{Batch, Receipt, leased};
use crate::error::Result;
use crate::event::entry::Entry;
use crate::event::trace::{self, Step};
use crate::route::{Route, To};
use crate::subscriber::HandlerPool;
use crate::subscriber::effects::{Handled, OpenEffects};

/// The decision about an entry before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It is delivered.
    Send,
    /// It waits behind a parked entry of its lane.
    Wait,
    /// The route does not want it, or has given it up before.
    Pass,
    /// It becomes a dead letter at once: it is no event, or its broker has given it up.
    Reject(String),
}

/// The result of a delivery.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// A destination answers each entry, a subscriber the first ones.
    pub(crate) receipts: Vec<Receipt>,
    /// The effects of a subscriber, which are not committed yet.
    pub(crate) effects: Option<OpenEffects>,
}

/// Delivers entries of a route. With `has_consumer`, a broker may bring the same events to a consumer, and every handled event is
/// recorded. A destination learns from `is_held` whether this process still holds the lease.
pub(crate) async fn deliver(
    route: &Route,
    (handlers, has_consumer): (&HandlerPool, bool),
    entries: &[&Entry],
    is_held: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Delivered> {
    match &route.to {
        _ if entries.is_empty() => Ok(Delivered::default()),
        To::Subscriber(subscriber) => {
            let Handled { receipts, effects } = match has_consumer || route.records {
                true => subscriber.handle_recorded(handlers, entries).await?,
                false => subscriber.handle(handlers, entries).await?,
            };
            Ok(Delivered {
                receipts,
                effects: Some(effects),
            })
        }
        To::Destination(destination) => {
            let batch = Batch {
                entries,
                ordering: route.ordering,
            };
            let span = |entry: &&Entry| trace::span(Step::Deliver, &route.name, &entry.event);
            let _spans: Vec<tracing::Span> = entries.iter().map(span).collect(); // they end with the delivery
            let delivery = leased::while_leased(is_held, destination.deliver(&batch));
            let delivery = AssertUnwindSafe(delivery).catch_unwind();
            let mut receipts = delivery.await.unwrap_or_default(); // a panic is a destination that gave no receipt
            let none = Receipt::unavailable("the destination gave no receipt");
            receipts.resize(entries.len(), none);
            Ok(Delivered {
                receipts,
                effects: None,
            })
        }
    }
}

/// Gives each entry its receipt, up to the first entry that was sent and has no answer yet.
pub(crate) fn pair<'a, 'p>(
    planned: impl Iterator<Item = (&'a Entry, &'p Plan)>,
    receipts: Vec<Receipt>,
) -> Vec<(&'a Entry, Option<Receipt>)> {
    let mut answers = receipts.into_iter();
    let mut judged = Vec::with_capacity(planned.size_hint().0);
    for (entry, plan) in planned {
        let receipt = match plan {
            Plan::Reject(reason) => Some(Receipt::Rejected(reason.clone())),
            Plan::Pass => Some(Receipt::Delivered),
            Plan::Wait => None,
            Plan::Send => match answers.next() {
                Some(receipt) => Some(receipt),
                None => break,
            },
        };
        judged.push((entry, receipt));
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use serde_json::value::RawValue;
    use time::OffsetDateTime;

    fn entries(count: i64) -> Vec<Entry> {
        let event = Event::new("t.v1", "t", "1", RawValue::NULL.to_owned()).unwrap();
        let entry = |id| Entry {
            id,
            event: event.clone(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn each_entry_gets_its_receipt_up_to_the_first_without_an_answer() {
        let entries = entries(6);
        let plans = [
            Plan::Send,
            Plan::Wait,
            Plan::Pass,
            Plan::Reject("no event".to_owned()),
            Plan::Send,
            Plan::Send,
        ];
        let receipts = vec![Receipt::Delivered, Receipt::Refused("e4".to_owned())];
        let paired = pair(entries.iter().zip(&plans), receipts);
        let paired: Vec<_> = paired.into_iter().map(|(entry, receipt)| (entry.id, receipt)).collect();
        let expected = [
            (0, Some(Receipt::Delivered)),
            (1, None),
            (2, Some(Receipt::Delivered)),
            (3, Some(Receipt::Rejected("no event".to_owned()))),
            (4, Some(Receipt::Refused("e4".to_owned()))),
        ];
        assert_eq!(paired, expected, "entry 5 was sent and has no answer");
    }
}
