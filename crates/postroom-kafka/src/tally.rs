//! Which entries of a batch have been answered, and which may be sent next without passing one that was not delivered.

use std::collections::{HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Receipt};

use crate::client::Partitions;
use crate::record::Record;

/// The answers to a batch so far.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    batch: &'a Batch<'a>,
    receipts: Vec<Option<Receipt>>,
    /// Lanes in which something was not delivered.
    shut: HashSet<Lane>,
}

impl<'a> Tally<'a> {
    pub(crate) fn of(batch: &'a Batch<'a>) -> Self {
        Self {
            batch,
            receipts: vec![None; batch.entries.len()],
            shut: HashSet::new(),
        }
    }

    pub(crate) fn batch(&self) -> &'a Batch<'a> {
        self.batch
    }

    pub(crate) fn lane(&self, at: usize) -> Option<Lane> {
        self.batch.entries.get(at).map(|entry| self.batch.lane(entry))
    }

    /// Whether an entry has no answer, and nothing before it on its lane has failed.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        let has_answer = self.receipts.get(at).is_none_or(Option::is_some);
        let entry = self.batch.entries.get(at);
        !has_answer && entry.is_some_and(|entry| !self.shut.contains(&self.batch.lane(entry)))
    }

    /// Those without an answer, in order, as long as nothing before them on their lane has failed.
    pub(crate) fn open(&self) -> Vec<(usize, &'a Entry)> {
        let entries = self.batch.entries.iter().copied().enumerate();
        entries.filter(|(at, _)| self.is_open(*at)).collect()
    }

    /// What can be under way together: of each lane what goes to the same partition, where nothing passes anything. That is
    /// the same topic and the same key, or a topic with one partition.
    pub(crate) fn wave(&self, records: &[Record], partitions: &Partitions) -> Vec<(usize, Lane)> {
        let mut tracks: HashMap<Lane, Option<(&str, Option<&str>)>> = HashMap::new();
        let mut wave = Vec::new();
        for (at, entry) in self.open() {
            let lane = self.batch.lane(entry);
            let track = records.get(at).map(|record| {
                let is_line = partitions.get(&record.topic) == Some(&1);
                (record.topic.as_str(), record.key.as_deref().filter(|_| !is_line))
            });
            let first = tracks.entry(lane.clone()).or_insert(track);
            if *first == track {
                wave.push((at, lane));
            } else {
                *first = None; // what follows on this lane waits for the next wave too
            }
        }
        wave
    }

    /// An answer. Behind one that was not delivered, only a delivery counts: the rest is held.
    pub(crate) fn settle(&mut self, at: usize, receipt: Receipt) {
        let Some(entry) = self.batch.entries.get(at) else {
            return;
        };
        let lane = self.batch.lane(entry);
        if receipt != Receipt::Delivered && !self.shut.insert(lane) {
            return;
        }
        if let Some(slot) = self.receipts.get_mut(at) {
            *slot = Some(receipt);
        }
    }

    /// The same answer for the first of every lane that is open; what follows is held.
    pub(crate) fn settle_rest(&mut self, receipt: &Receipt) {
        for (at, _) in self.open() {
            self.settle(at, receipt.clone());
        }
    }

    /// One receipt per entry.
    pub(crate) fn finish(self) -> Vec<Receipt> {
        self.receipts
            .into_iter()
            .map(|receipt| receipt.unwrap_or(Receipt::Held))
            .collect()
    }
}
