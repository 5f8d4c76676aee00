//! The port to where entries go: a broker, a sink over HTTP, memory.

pub(crate) mod leased;
pub(crate) mod local;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::event::entry::Entry;
use crate::policy::ordering::{Lane, Ordering};

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
    /// Which entries must not overtake which.
    pub ordering: Ordering,
}

/// The answer of a destination to one entry.
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
    /// The destination as a whole cannot be reached. The attempt does not count.
    Unavailable {
        /// In the words of the destination.
        says: String,
        /// How long the destination wants to be left alone, if it says so.
        after: Option<Duration>,
    },
}

impl Receipt {
    /// The destination as a whole cannot be reached, and does not say for how long.
    pub fn unavailable(says: impl Into<String>) -> Self {
        Self::Unavailable {
            says: says.into(),
            after: None,
        }
    }
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
        let mut waiting = self.lanes().into_iter();
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

    /// The places of the entries of each lane, in order; lanes in the order of their first entries.
    pub fn lanes(&self) -> Vec<Vec<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use serde_json::value::RawValue;
    use std::sync::Mutex;
    use time::OffsetDateTime;

    fn entry(id: i64, key: &str) -> Entry {
        let payload = RawValue::from_string("1".into()).unwrap();
        Entry {
            id,
            event: Event::new("t", "k", key, payload).unwrap(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    #[tokio::test]
    async fn what_follows_a_failure_on_its_lane_is_held_and_not_sent() {
        let entries = [
            entry(1, "a"),
            entry(2, "b"),
            entry(3, "a"),
            entry(4, "b"),
            entry(5, "a"),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        let sent = Mutex::new(Vec::new());
        let deliver = async |at: usize| {
            let id = entries[at].id;
            tokio::task::yield_now().await;
            sent.lock().unwrap().push(id);
            if id == 3 {
                Receipt::Refused("no".into())
            } else {
                Receipt::Delivered
            }
        };
        let check = async |ordering: Ordering, expected_sent: &[i64], held: &[i64]| {
            let batch = Batch {
                entries: &entries,
                ordering,
            };
            let receipts = batch.in_lanes(2, &deliver).await;
            let mut sent = std::mem::take(&mut *sent.lock().unwrap());
            sent.sort_unstable();
            assert_eq!(sent, expected_sent, "{ordering:?}");
            let found: Vec<i64> = entries
                .iter()
                .zip(&receipts)
                .filter(|(_, r)| **r == Receipt::Held)
                .map(|(e, _)| e.id)
                .collect();
            assert_eq!(found, held, "{ordering:?}");
            assert_eq!(receipts[2], Receipt::Refused("no".into()));
        };
        check(Ordering::Key, &[1, 2, 3, 4], &[5]).await;
        check(Ordering::Strict, &[1, 2, 3], &[4, 5]).await;
        check(Ordering::None, &[1, 2, 3, 4, 5], &[]).await;
    }
}
