//! Delivery progress of a batch: the receipts so far, and the entries that may be sent next without overtaking a failed entry
//! of their lane.

use std::collections::{HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Receipt};

use crate::client::Partitions;
use crate::record::Record;

/// The receipts of a batch so far.
#[derive(Debug)]
pub(crate) struct BatchProgress<'a> {
    batch: &'a Batch<'a>,
    /// The lane of each entry. Lanes are numbered in order of appearance.
    lanes: Vec<usize>,
    receipts: Vec<Option<Receipt>>,
    /// Lanes with an entry that was not delivered.
    blocked: HashSet<usize>,
}

impl<'a> BatchProgress<'a> {
    pub(crate) fn of(batch: &'a Batch<'a>) -> Self {
        let mut numbers: HashMap<Lane, usize> = HashMap::new();
        let number = |entry: &&Entry| {
            let next = numbers.len();
            *numbers.entry(batch.lane(entry)).or_insert(next)
        };
        Self {
            batch,
            lanes: batch.entries.iter().map(number).collect(),
            receipts: vec![None; batch.entries.len()],
            blocked: HashSet::new(),
        }
    }

    pub(crate) fn batch(&self) -> &'a Batch<'a> {
        self.batch
    }

    pub(crate) fn lane(&self, at: usize) -> Option<usize> {
        self.lanes.get(at).copied()
    }

    /// Whether an entry has no receipt and no earlier entry of its lane has failed.
    pub(crate) fn is_pending(&self, at: usize) -> bool {
        let has_answer = self.receipts.get(at).is_none_or(Option::is_some);
        !has_answer && self.lane(at).is_some_and(|lane| !self.blocked.contains(&lane))
    }

    /// Entries without a receipt, in order, except those behind a failed entry of their lane.
    pub(crate) fn pending(&self) -> Vec<(usize, &'a Entry)> {
        let entries = self.batch.entries.iter().copied().enumerate();
        entries.filter(|(at, _)| self.is_pending(*at)).collect()
    }

    /// The entries that may be in flight together, with the number of their lane. Entries of one lane must go to the same
    /// partition, which keeps their order: the same topic and key, or a topic with one partition.
    pub(crate) fn next_chunk(&self, records: &[Record<'_>], partitions: &Partitions) -> Vec<(usize, usize)> {
        let mut targets: HashMap<usize, Option<(&str, Option<&str>)>> = HashMap::new();
        let mut chunk = Vec::new();
        for (at, lane) in self.pending().iter().filter_map(|(at, _)| Some((*at, self.lane(*at)?))) {
            let target = records.get(at).map(|record| {
                let has_one_partition = partitions.get(&record.topic) == Some(&1);
                (
                    record.topic.as_str(),
                    record.key.as_deref().filter(|_| !has_one_partition),
                )
            });
            let first = targets.entry(lane).or_insert(target);
            if *first == target {
                chunk.push((at, lane));
            } else {
                *first = None; // later entries of this lane wait for the next chunk too
            }
        }
        chunk
    }

    /// Stores a receipt. Behind a failed entry of the lane only a delivery counts; other entries are held.
    pub(crate) fn settle(&mut self, at: usize, receipt: Receipt) {
        let Some(lane) = self.lane(at) else {
            return;
        };
        if receipt != Receipt::Delivered && !self.blocked.insert(lane) {
            return;
        }
        if let Some(slot) = self.receipts.get_mut(at) {
            *slot = Some(receipt);
        }
    }

    /// Stores this receipt for the first pending entry of every lane. Later entries of the lane are held.
    pub(crate) fn settle_pending(&mut self, receipt: &Receipt) {
        for (at, _) in self.pending() {
            self.settle(at, receipt.clone());
        }
    }

    /// Returns one receipt per entry.
    pub(crate) fn finish(self) -> Vec<Receipt> {
        self.receipts
            .into_iter()
            .map(|receipt| receipt.unwrap_or(Receipt::Held))
            .collect()
    }
}
