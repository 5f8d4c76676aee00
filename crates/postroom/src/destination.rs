//! The port to where entries go: a broker, a sink over HTTP, memory.

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::outbox::Entry;
use crate::route::{Lane, Ordering};

/// Takes a batch of entries and answers each.
///
/// # Contract
/// 1. One receipt per entry, in the batch's order.
/// 2. Entries of one lane ([`Batch::lane`]) are delivered in order. Once one is not delivered, the later ones of its
///    lane in the same batch are answered [`Receipt::Held`] and were not sent.
/// 3. [`Receipt::Delivered`] means durable at the other side.
/// 4. A call ends: every network step inside has a time-out.
#[async_trait]
pub trait Destination: fmt::Debug + Send + Sync {
    /// Delivers a batch.
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt>;
}

/// Entries to deliver together.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// In order.
    pub entries: &'a [&'a Entry],
    /// What must not overtake what.
    pub ordering: Ordering,
}

/// What a destination answered for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is there, durably.
    Delivered,
    /// This entry was not taken; it is tried again by the route's policy.
    Refused(String),
    /// This entry will never be taken (malformed, too large): a dead letter at once.
    Rejected(String),
    /// Not sent, because an earlier one of its lane was not delivered.
    Held,
    /// The destination as a whole cannot be reached: nobody's fault, no attempt counted.
    Unavailable(String),
}

impl Batch<'_> {
    /// The lane of an entry of this batch.
    pub fn lane(&self, entry: &Entry) -> Lane {
        self.ordering.lane(entry)
    }

    /// Delivers one entry at a time per lane, `at_once` lanes side by side: how a destination that takes single
    /// messages fulfils the contract.
    pub async fn in_lanes<F, Fut>(&self, at_once: usize, deliver: F) -> Vec<Receipt>
    where
        F: Fn(usize) -> Fut,
        Fut: Future<Output = Receipt>,
    {
        let mut receipts = vec![Receipt::Held; self.entries.len()];
        let mut waiting = self.by_lane().into_iter();
        let run = |lane: Vec<usize>| async {
            let mut answers = Vec::with_capacity(lane.len());
            for at in lane {
                let receipt = deliver(at).await;
                let delivered = receipt == Receipt::Delivered;
                answers.push((at, receipt));
                if !delivered {
                    break;
                }
            }
            answers
        };
        let mut running: FuturesUnordered<_> = waiting.by_ref().take(at_once.max(1)).map(&run).collect();
        while let Some(answers) = running.next().await {
            for (at, receipt) in answers {
                if let Some(slot) = receipts.get_mut(at) {
                    *slot = receipt;
                }
            }
            running.extend(waiting.next().map(&run));
        }
        receipts
    }

    fn by_lane(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<Vec<usize>> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let slot = *seen.entry(self.lane(entry)).or_insert_with(|| {
                order.push(Vec::new());
                order.len() - 1
            });
            if let Some(lane) = order.get_mut(slot) {
                lane.push(at);
            }
        }
        order
    }
}
