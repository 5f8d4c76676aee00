//! Which entries of a batch have been answered, and which may be sent next without passing one that was not delivered.

use std::collections::{HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Receipt};

use crate::client::Partitions;
use crate::record::Record;

/// The answers to a batch so far.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    batch: &'a Batch<'a>,
    /// The lane of each entry; lanes are numbered as they come.
    lanes: Vec<usize>,
    receipts: Vec<Option<Receipt>>,
    /// Lanes in which something was not delivered.
    shut: HashSet<usize>,
}

impl<'a> Tally<'a> {
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
            shut: HashSet::new(),
        }
    }

    pub(crate) fn batch(&self) -> &'a Batch<'a> {
        self.batch
    }

    pub(crate) fn lane(&self, at: usize) -> Option<usize> {
        self.lanes.get(at).copied()
    }

    /// Whether an entry has no answer, and nothing before it on its lane has failed.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        let has_answer = self.receipts.get(at).is_none_or(Option::is_some);
        !has_answer && self.lane(at).is_some_and(|lane| !self.shut.contains(&lane))
    }

    /// Those without an answer, in order, as long as nothing before them on their lane has failed.
    pub(crate) fn open(&self) -> Vec<(usize, &'a Entry)> {
        let entries = self.batch.entries.iter().copied().enumerate();
        entries.filter(|(at, _)| self.is_open(*at)).collect()
    }

    /// What can be under way together, with the number of its lane: of each lane what goes to the same partition, where nothing
    /// passes anything. That is the same topic and the same key, or a topic with one partition.
    pub(crate) fn wave(&self, records: &[Record<'_>], partitions: &Partitions) -> Vec<(usize, usize)> {
        let mut tracks: HashMap<usize, Option<(&str, Option<&str>)>> = HashMap::new();
        let mut wave = Vec::new();
        for (at, lane) in self.open().iter().filter_map(|(at, _)| Some((*at, self.lane(*at)?))) {
            let track = records.get(at).map(|record| {
                let is_line = partitions.get(&record.topic) == Some(&1);
                (record.topic.as_str(), record.key.as_deref().filter(|_| !is_line))
            });
            let first = tracks.entry(lane).or_insert(track);
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
        let Some(lane) = self.lane(at) else {
            return;
        };
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
