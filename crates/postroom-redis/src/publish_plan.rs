//! Splits a batch into rounds of requests, and collects the receipts.
//!
//! A request ([`TopicBatch`]) contains entries of one topic, because only keys of one topic are on the same node. The requests
//! of a round are in flight together. For each topic there is one with at most one entry of every shallow lane, sent as plain
//! commands, and one with all entries of deep lanes, sent as a script. The script stops a lane at a failed entry, but costs the
//! server several times as much. An entry waits for the next round if an earlier entry of its lane is in this round, as a plain
//! command or in another topic.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Mode, Receipt, Topic, Written};

/// Maximum number of entries in one script call, during which the server does nothing else.
const SCRIPTED_MAX: usize = 500;
/// Maximum number of entries in one request of plain commands.
const PLAIN_MAX: usize = 1_000;
const BYTES_MAX: usize = 1_000_000;
/// A lane with more entries than this in a batch is deep: one entry per round would need too many rounds.
const SHALLOW_MAX: usize = 8;

/// The plan of a batch, and its receipts so far.
#[derive(Debug)]
pub(crate) struct PublishPlan<'a> {
    planned_entries: Vec<PlannedEntry<'a>>,
    /// Lanes with an entry that was not delivered.
    stopped: HashSet<usize>,
    /// The reason to send nothing more.
    unavailable: Option<String>,
}

/// An entry of the batch with its lane, topic and receipt.
#[derive(Debug)]
pub(crate) struct PlannedEntry<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) lane: usize,
    is_deep: bool,
    topic: String,
    /// The message, if it has a form of its own; or why its writer has failed.
    pub(crate) written: Option<Result<Written, String>>,
    receipt: Option<Receipt>,
}

/// A request with entries of one topic, as indexes into the batch.
#[derive(Debug, Default)]
pub(crate) struct TopicBatch {
    pub(crate) topic: String,
    /// Whether it contains deep lanes, with several entries each.
    pub(crate) is_deep: bool,
    pub(crate) indexes: Vec<usize>,
    bytes: usize,
}

impl<'a> PublishPlan<'a> {
    pub(crate) fn of(batch: &Batch<'a>, topic: &Topic, mode: &Mode) -> Self {
        let mut lanes: HashMap<Lane, usize> = HashMap::new();
        let mut depths: Vec<usize> = Vec::new();
        let mut planned = |entry: &&'a Entry| {
            let lane = *lanes.entry(batch.lane(entry)).or_insert_with(|| {
                depths.push(0);
                depths.len() - 1
            });
            depths.get_mut(lane).into_iter().for_each(|depth| *depth += 1);
            PlannedEntry {
                entry,
                lane,
                is_deep: false,
                topic: topic.of(&entry.event.event_type),
                written: match mode {
                    Mode::Own(writer) => Some(writer.write(entry).map_err(|error| error.report())),
                    Mode::Binary | Mode::Structured => None,
                },
                receipt: None,
            }
        };
        let mut planned_entries: Vec<PlannedEntry<'a>> = batch.entries.iter().map(&mut planned).collect();
        for planned in &mut planned_entries {
            planned.is_deep = depths.get(planned.lane).is_some_and(|depth| *depth > SHALLOW_MAX);
        }
        Self {
            planned_entries,
            stopped: HashSet::new(),
            unavailable: None,
        }
    }

    /// The requests of the next round; empty at the end.
    pub(crate) fn next_round(&self) -> Vec<TopicBatch> {
        let mut batches: BTreeMap<(&str, bool), TopicBatch> = BTreeMap::new();
        let mut blocked: HashSet<usize> = self.stopped.clone();
        let mut topics_in_flight: HashMap<usize, &str> = HashMap::new();
        if self.unavailable.is_some() {
            return Vec::new();
        }
        for (at, planned) in self.pending() {
            let topic_batch = batches
                .entry((&planned.topic, planned.is_deep))
                .or_insert_with(|| TopicBatch::to(planned));
            let must_wait = |topic: &&str| !planned.is_deep || *topic != planned.topic;
            if topics_in_flight.get(&planned.lane).is_some_and(must_wait) || topic_batch.is_full() {
                blocked.insert(planned.lane);
            }
            if !blocked.contains(&planned.lane) {
                topics_in_flight.insert(planned.lane, &planned.topic);
                topic_batch.bytes += planned.entry.event.payload.get().len();
                topic_batch.indexes.push(at);
            }
        }
        batches
            .into_values()
            .filter(|topic_batch| !topic_batch.indexes.is_empty())
            .collect()
    }

    /// The entries of a request.
    pub(crate) fn planned_entries(&self, topic_batch: &TopicBatch) -> impl Iterator<Item = &PlannedEntry<'a>> {
        topic_batch
            .indexes
            .iter()
            .filter_map(|at| self.planned_entries.get(*at))
    }

    /// Records the receipts of a request's entries, in order.
    pub(crate) fn record(&mut self, topic_batch: &TopicBatch, answers: Vec<Receipt>) {
        for (at, receipt) in topic_batch.indexes.iter().zip(answers) {
            let Some(planned) = self.planned_entries.get_mut(*at) else {
                continue;
            };
            if let Receipt::Unavailable { says: error, .. } = &receipt {
                self.unavailable = Some(error.clone());
            }
            if receipt != Receipt::Delivered {
                self.stopped.insert(planned.lane);
            }
            planned.receipt = Some(receipt);
        }
    }

    /// Records a failed request: the first entry of each of its lanes gets this receipt, later ones are held.
    pub(crate) fn record_failure(&mut self, topic_batch: &TopicBatch, receipt: &Receipt) {
        let mut lanes = HashSet::new();
        let answer = |planned: &PlannedEntry<'a>| {
            if lanes.insert(planned.lane) {
                receipt.clone()
            } else {
                Receipt::Held
            }
        };
        let answers = self.planned_entries(topic_batch).map(answer).collect();
        self.record(topic_batch, answers);
    }

    /// Returns one receipt per entry of the batch.
    pub(crate) fn finish(mut self) -> Vec<Receipt> {
        let unavailable = self
            .unavailable
            .take()
            .map(Receipt::unavailable)
            .unwrap_or(Receipt::Held);
        for planned in &mut self.planned_entries {
            let receipt = if self.stopped.contains(&planned.lane) {
                Receipt::Held
            } else {
                unavailable.clone()
            };
            if planned.receipt.is_none() {
                self.stopped.insert(planned.lane);
                planned.receipt = Some(receipt);
            }
        }
        self.planned_entries
            .into_iter()
            .filter_map(|planned| planned.receipt)
            .collect()
    }

    fn pending(&self) -> impl Iterator<Item = (usize, &PlannedEntry<'a>)> {
        self.planned_entries
            .iter()
            .enumerate()
            .filter(|(_, planned)| planned.receipt.is_none())
    }
}

impl PlannedEntry<'_> {
    /// The receipt of an entry that has no message, because its writer has failed. Its request has no fields, and the server refuses it.
    pub(crate) fn rejection(&self) -> Option<Receipt> {
        let says = self.written.as_ref()?.as_ref().err()?;
        Some(Receipt::Rejected(says.clone()))
    }
}

impl TopicBatch {
    fn to(planned: &PlannedEntry<'_>) -> Self {
        Self {
            topic: planned.topic.clone(),
            is_deep: planned.is_deep,
            ..Self::default()
        }
    }

    fn is_full(&self) -> bool {
        let entries_max = if self.is_deep { SCRIPTED_MAX } else { PLAIN_MAX };
        self.indexes.len() >= entries_max || self.bytes >= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use postroom::{Event, Ordering};

    use super::*;

    fn entries(keys: &str) -> Vec<Entry> {
        let entry = |(id, key): (i64, char)| Entry {
            id,
            event: Event::new("t", "k", key.to_string(), postroom::parse_payload("1").unwrap()).unwrap(),
            created_at: postroom::clock::now(),
        };
        (0..).zip(keys.chars()).map(entry).collect()
    }

    /// Delivers all entries except the one at `failing`. Returns the indexes of each request, and the receipts.
    fn run(keys: &str, failing: usize) -> (Vec<(bool, Vec<usize>)>, Vec<Receipt>) {
        let entries = entries(keys);
        let batch = Batch {
            entries: &entries.iter().collect::<Vec<_>>(),
            ordering: Ordering::Key,
        };
        let mut plan = PublishPlan::of(&batch, &"t".parse().unwrap(), &Mode::Binary);
        let mut sent = Vec::new();
        loop {
            let batches = plan.next_round();
            if batches.is_empty() {
                return (sent, plan.finish());
            }
            for topic_batch in batches {
                let answer = |at: &usize| match *at == failing {
                    true => Receipt::Refused(String::new()),
                    false => Receipt::Delivered,
                };
                plan.record(&topic_batch, topic_batch.indexes.iter().map(answer).collect());
                sent.push((topic_batch.is_deep, topic_batch.indexes));
            }
        }
    }

    #[test]
    fn a_shallow_lane_has_one_entry_in_flight_a_deep_one_all() {
        let (sent, _) = run("aab", 99);
        assert_eq!(sent, [(false, vec![0, 2]), (false, vec![1])]);
        let (sent, _) = run("bxxxxxxxxx", 99);
        assert_eq!(sent, [(false, vec![0]), (true, (1..10).collect())]);
    }

    #[test]
    fn entries_behind_a_refused_one_of_a_shallow_lane_are_held() {
        let (sent, receipts) = run("abaab", 2);
        assert_eq!(sent, [(false, vec![0, 1]), (false, vec![2, 4])]);
        assert_eq!(receipts.get(3), Some(&Receipt::Held));
        assert_eq!(receipts.get(4), Some(&Receipt::Delivered));
    }
}
