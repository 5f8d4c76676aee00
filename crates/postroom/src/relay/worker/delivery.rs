//! How a shard worker probes a destination, and how it reads ahead while it delivers.

use std::sync::Arc;
use std::time::Instant;

use super::{PROBE_LANES, ShardWorker, Work};
use crate::destination::Receipt;
use crate::error::Result;
use crate::event::entry::Entry;
use crate::policy::ordering::Lanes;
use crate::relay::delivery::{Delivered, Plan, deliver};
use crate::relay::judge::Outage;
use crate::relay::page_cache::Slice;
use crate::route::To;
use crate::store::task;
use crate::subscriber::effects::OpenEffects;

/// Entries that were sent, and their answers.
pub(super) struct Sent<'a> {
    pub(super) entries: Vec<&'a Entry>,
    /// Of the first of them: all, but for a subscriber.
    pub(super) receipts: Vec<Receipt>,
    /// The effects of a subscriber.
    pub(super) effects: Option<OpenEffects>,
}

impl Sent<'_> {
    /// The plan that was followed for these entries, in the same order: those that were not sent wait.
    pub(super) fn plans(&self, entries: &[&Entry]) -> Vec<Plan> {
        let mut sent = self.entries.iter().peekable();
        let plan = |entry: &&Entry| match sent.next_if(|sent| sent.id == entry.id) {
            Some(_) => Plan::Send,
            None => Plan::Wait,
        };
        entries.iter().map(plan).collect()
    }
}

impl ShardWorker {
    /// Delivers entries.
    pub(super) async fn deliver<'a>(&self, entries: Vec<&'a Entry>) -> Result<Sent<'a>> {
        let lease = self.lease.clone();
        let is_held = move || lease.borrow().is_some_and(|lease| Instant::now() < lease.deadline);
        let handlers = (&self.handlers, self.feeding.is_some());
        let Delivered { receipts, effects } = deliver(&self.route, handlers, &entries, is_held).await?;
        Ok(Sent {
            entries,
            receipts,
            effects,
        })
    }

    /// Sends the first entry to see whether the destination is there. If it is unavailable, the first entries of other lanes
    /// follow, unless the route may send only one: one entry can be unavailable by itself. The next turn takes the entries behind
    /// them.
    pub(super) async fn probe<'a>(
        &self,
        work: &mut Work,
        entries: &mut Vec<&'a Entry>,
        send: &[&'a Entry],
    ) -> Result<Sent<'a>> {
        let mut lanes = Lanes::new();
        let is_first = |entry: &&&Entry| lanes.insert(self.route.ordering.lane(entry));
        let count = self.probes_max(work, 1 + PROBE_LANES);
        let probes: Vec<&Entry> = send.iter().filter(is_first).take(count).copied().collect();
        let (first, others) = probes.split_at(probes.len().min(1));
        if !first.is_empty() {
            self.note_next_probe(work).await?;
        }
        let mut sent = self.deliver(first.to_vec()).await?;
        if Outage::of(sent.receipts.iter()).is_some() {
            let others = self.deliver(others.to_vec()).await?;
            sent.entries.extend(others.entries);
            sent.receipts.extend(others.receipts);
            sent.effects = others.effects.or(sent.effects);
        }
        if let Some(last) = sent.entries.last().map(|last| last.id) {
            entries.retain(|entry| entry.id <= last);
        }
        Ok(sent)
    }

    /// Delivers a full page to a destination while the page behind it is read; the page cache keeps that. Delivery does not wait for it: a
    /// reader that fails or hangs holds up no delivery. (A subscriber has a connection of its own meanwhile, and would hold it.)
    pub(super) async fn while_reading_ahead<T>(&self, slice: &Slice, delivering: impl Future<Output = T>) -> T {
        if !slice.has_more() || matches!(self.route.to, To::Subscriber(_)) {
            return delivering.await;
        }
        let (pages, next) = (Arc::clone(&self.pages), slice.next());
        let reading = task::to_end(async move { pages.read(next).await }); // on another core, and to its end
        let mut delivering = std::pin::pin!(delivering);
        tokio::select! {
            delivered = &mut delivering => delivered,
            _page = reading => delivering.await,
        }
    }
}
