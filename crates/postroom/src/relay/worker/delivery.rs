//! How a worker hands entries over, and which answer belongs to which.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;

use super::{PROBE_LANES, ShardWorker};
use crate::destination::{Batch, Receipt, leased};
use crate::error::Result;
use crate::event::entry::Entry;
use crate::event::trace::{self, Step};
use crate::policy::ordering::Lanes;
use crate::relay::page_cache::Slice;
use crate::route::To;
use crate::store::task;
use crate::store::tx::Tx;

/// What was sent, and what came back.
#[derive(Default)]
pub(super) struct Sent<'a> {
    pub(super) entries: Vec<&'a Entry>,
    /// Of the first of them: all, but for a subscriber.
    pub(super) receipts: Vec<Receipt>,
    /// The transaction in which they are to be settled, if it holds effects.
    pub(super) tx: Option<Tx>,
}

impl ShardWorker {
    /// Delivers entries.
    pub(super) async fn deliver<'a>(&self, send: Vec<&'a Entry>) -> Result<Sent<'a>> {
        match &self.route.to {
            To::Subscriber(subscriber) if !send.is_empty() => {
                let (receipts, tx) = match self.feeding {
                    Some(_) => subscriber.handle_recorded(&self.handlers, &send).await?,
                    None => subscriber.handle(&self.handlers, &send).await?,
                };
                Ok(Sent {
                    entries: send,
                    receipts,
                    tx: Some(tx),
                })
            }
            To::Destination(destination) if !send.is_empty() => {
                let batch = Batch {
                    entries: &send,
                    ordering: self.route.ordering,
                };
                let spans = send
                    .iter()
                    .map(|entry| trace::span(Step::Deliver, &self.route.name, &entry.event));
                let _spans: Vec<tracing::Span> = spans.collect(); // they end with the delivery
                let lease = self.lease.clone();
                let is_held = move || lease.borrow().is_some_and(|lease| Instant::now() < lease.deadline);
                let delivery = leased::while_leased(is_held, destination.deliver(&batch));
                let delivery = AssertUnwindSafe(delivery).catch_unwind();
                let mut receipts = delivery.await.unwrap_or_default(); // a panic is a destination that gave no receipt
                receipts.resize(
                    send.len(),
                    Receipt::Unavailable("the destination gave no receipt".to_owned()),
                );
                Ok(Sent {
                    entries: send,
                    receipts,
                    tx: None,
                })
            }
            To::Subscriber(_) | To::Destination(_) => Ok(Sent::default()),
        }
    }

    /// Sends the first entry to see whether the destination is there. If it is unavailable, the first entries of other lanes
    /// follow: one entry can be unavailable by itself. What comes behind them in `entries` is left for the next turn.
    pub(super) async fn probe<'a>(&self, entries: &mut Vec<&'a Entry>, send: &[&'a Entry]) -> Result<Sent<'a>> {
        let mut lanes = Lanes::new();
        let is_first = |entry: &&&Entry| lanes.insert(self.route.ordering.lane(entry));
        let mut probes = send.iter().filter(is_first).take(1 + PROBE_LANES).copied();
        let mut sent = self.deliver(probes.next().into_iter().collect()).await?;
        if all_unavailable(&sent.receipts).is_some() {
            let others = self.deliver(probes.collect()).await?;
            sent.entries.extend(others.entries);
            sent.receipts.extend(others.receipts);
            sent.tx = others.tx.or(sent.tx);
        }
        if let Some(last) = sent.entries.last().map(|last| last.id) {
            entries.retain(|entry| entry.id <= last);
        }
        Ok(sent)
    }

    /// Delivers a full page to a destination while the page behind it is read; the feed keeps that. Nobody waits for it: a
    /// reader that fails or hangs holds up no delivery. (A subscriber has a connection of its own meanwhile, and would hold it.)
    pub(super) async fn while_reading_ahead<T>(&self, slice: &Slice, delivering: impl Future<Output = T>) -> T {
        if !slice.has_more() || matches!(self.route.to, To::Subscriber(_)) {
            return delivering.await;
        }
        let (feed, next) = (Arc::clone(&self.pages), slice.next());
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
