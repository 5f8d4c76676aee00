//! How a line hands entries over, and which answer belongs to which.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use sea_orm::DatabaseTransaction;

use super::Line;
use crate::destination::{Batch, Receipt};
use crate::error::Result;
use crate::feed::Slice;
use crate::outbox::Entry;
use crate::route::To;
use crate::task;
use crate::trace::{self, Step};

impl Line {
    /// Delivers entries; answers receipts for the first of them (all, but for a subscriber) and the transaction in which
    /// they are to be settled, if it holds effects.
    pub(super) async fn deliver(&self, send: &[&Entry]) -> Result<(Vec<Receipt>, Option<DatabaseTransaction>)> {
        let db = self.feed.outbox().db();
        match &self.route.to {
            To::Subscriber(subscriber) if !send.is_empty() => {
                let (receipts, tx) = subscriber.handle(db, send).await?;
                Ok((receipts, Some(tx)))
            }
            To::Destination(destination) if !send.is_empty() => {
                let batch = Batch {
                    entries: send,
                    ordering: self.route.ordering,
                };
                let spans = send
                    .iter()
                    .map(|entry| trace::span(Step::Deliver, &self.route.name, &entry.event));
                let _spans: Vec<tracing::Span> = spans.collect(); // they end with the delivery
                let delivery = AssertUnwindSafe(destination.deliver(&batch)).catch_unwind();
                let mut receipts = delivery.await.unwrap_or_default(); // a panic is a destination that gave no receipt
                receipts.resize(
                    send.len(),
                    Receipt::Unavailable("the destination gave no receipt".to_owned()),
                );
                Ok((receipts, None))
            }
            To::Subscriber(_) | To::Destination(_) => Ok((Vec::new(), None)),
        }
    }

    /// Delivers a full page to a destination while the page behind it is read; the feed keeps that. Nobody waits for it: a
    /// reader that fails or hangs holds up no delivery. (A subscriber has a connection of its own meanwhile, and would hold it.)
    pub(super) async fn while_reading_ahead<T>(&self, slice: &Slice, delivering: impl Future<Output = T>) -> T {
        if !slice.has_more() || matches!(self.route.to, To::Subscriber(_)) {
            return delivering.await;
        }
        let (feed, next) = (Arc::clone(&self.feed), slice.next());
        let reading = task::to_end(async move { feed.read(next).await }); // on another core, and to its end
        let mut delivering = std::pin::pin!(delivering);
        tokio::select! {
            delivered = &mut delivering => delivered,
            _page = reading => delivering.await,
        }
    }
}

pub(super) fn all_unavailable(receipts: &[Receipt]) -> Option<String> {
    let mut reason = None;
    for receipt in receipts {
        match receipt {
            Receipt::Unavailable(error) => reason = Some(error.clone()),
            Receipt::Held => {}
            Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => return None,
        }
    }
    reason
}

/// Pairs entries with their receipts, up to the first one that was to be sent and has no answer yet.
pub(super) fn pair<'a>(
    entries: &[&'a Entry],
    send: &[&Entry],
    receipts: Vec<Receipt>,
) -> Vec<(&'a Entry, Option<Receipt>)> {
    let unanswered = send.get(receipts.len()).map(|entry| entry.id);
    let mut answers = send.iter().zip(receipts).peekable();
    entries
        .iter()
        .take_while(|entry| Some(entry.id) != unanswered)
        .map(|entry| {
            let answer = answers.next_if(|(sent, _)| sent.id == entry.id);
            (*entry, answer.map(|(_, receipt)| receipt))
        })
        .collect()
}
