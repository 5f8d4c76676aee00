//! One delivery step: each entry has a plan, entries are delivered, and each gets the receipt that belongs to it.
//!
//! The shard worker delivers entries of the log and parked rows in this way, the consumer messages of a broker. They differ in where
//! the entries come from, and in how progress is kept ([`crate::relay::settle::Progress`]).

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::destination::{Batch, Receipt, leased};
use crate::error::Result;
use crate::event::entry::Entry;
use crate::event::trace::{self, Step};
use crate::route::{Route, To};
use crate::subscriber::HandlerPool;
use crate::subscriber::effects::OpenEffects;

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
#[derive(Debug)]
pub(crate) enum Delivered {
    /// A destination has answered each entry.
    Sent(Vec<Receipt>),
    /// A subscriber has handled the first entries; their effects are not committed yet.
    Effects(OpenEffects),
}

impl Delivered {
    /// The receipts, and the effects if there are any.
    pub(crate) fn split(self) -> (Vec<Receipt>, Option<OpenEffects>) {
        match self {
            Self::Sent(receipts) => (receipts, None),
            Self::Effects(mut effects) => (std::mem::take(&mut effects.receipts), Some(effects)),
        }
    }
}

/// Delivers entries of a route. With `is_fed`, a broker feeds the route, and everything that is handled is recorded. A destination
/// learns from `is_held` whether the lease of this process still stands.
pub(crate) async fn deliver(
    route: &Route,
    (handlers, is_fed): (&HandlerPool, bool),
    entries: &[&Entry],
    is_held: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Delivered> {
    match &route.to {
        _ if entries.is_empty() => Ok(Delivered::Sent(Vec::new())),
        To::Subscriber(subscriber) => {
            let effects = match is_fed {
                true => subscriber.handle_recorded(handlers, entries).await?,
                false => subscriber.handle(handlers, entries).await?,
            };
            Ok(Delivered::Effects(effects))
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
            let none = Receipt::Unavailable("the destination gave no receipt".to_owned());
            receipts.resize(entries.len(), none);
            Ok(Delivered::Sent(receipts))
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
