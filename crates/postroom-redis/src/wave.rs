//! The way of a batch: in which steps its entries go out, and what each is answered.
//!
//! A step takes entries of one topic, since only their keys are sure to lie on one node. A wave is what is under way at the
//! same time: a step for each topic with one entry of every lane, added by plain commands, and one with all entries of lanes
//! that have many, added by a script, which stops a lane at an entry that fails but costs the server several times as much.
//! An entry goes in the next wave when an earlier one of its lane is in this one and has not been answered, or goes to
//! another topic.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Receipt, Topic};

/// So much goes in one script: the server does nothing else meanwhile.
const SCRIPTED_MAX: usize = 500;
/// And so much by plain commands.
const PLAIN_MAX: usize = 1_000;
const BYTES_MAX: usize = 1_000_000;
/// A lane with more entries than this in a batch is deep: one entry after the other would be too many waves.
const SHALLOW_MAX: usize = 8;

/// A batch under way.
#[derive(Debug)]
pub(crate) struct Waves<'a> {
    pieces: Vec<Piece<'a>>,
    /// Lanes of which an entry was not delivered.
    stopped: HashSet<usize>,
    /// Why nothing more is sent.
    away: Option<String>,
}

/// An entry of the batch.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) lane: usize,
    is_deep: bool,
    topic: String,
    receipt: Option<Receipt>,
}

/// What goes to one topic in one step: places in the batch.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) topic: String,
    /// Whether a lane may have several entries in it.
    pub(crate) is_deep: bool,
    pub(crate) places: Vec<usize>,
    bytes: usize,
}

impl<'a> Waves<'a> {
    pub(crate) fn of(batch: &Batch<'a>, topic: &Topic) -> Self {
        let mut lanes: HashMap<Lane, usize> = HashMap::new();
        let mut depths: Vec<usize> = Vec::new();
        let mut piece = |entry: &&'a Entry| {
            let lane = *lanes.entry(batch.lane(entry)).or_insert_with(|| {
                depths.push(0);
                depths.len() - 1
            });
            depths.get_mut(lane).into_iter().for_each(|depth| *depth += 1);
            Piece {
                entry,
                lane,
                is_deep: false,
                topic: topic.of(&entry.event.event_type),
                receipt: None,
            }
        };
        let mut pieces: Vec<Piece<'a>> = batch.entries.iter().map(&mut piece).collect();
        for piece in &mut pieces {
            piece.is_deep = depths.get(piece.lane).is_some_and(|depth| *depth > SHALLOW_MAX);
        }
        Self {
            pieces,
            stopped: HashSet::new(),
            away: None,
        }
    }

    /// What goes out next; nothing when the batch is through.
    pub(crate) fn next(&self) -> Vec<Step> {
        let mut steps: BTreeMap<(&str, bool), Step> = BTreeMap::new();
        let mut waiting: HashSet<usize> = self.stopped.clone();
        let mut going: HashMap<usize, &str> = HashMap::new();
        if self.away.is_some() {
            return Vec::new();
        }
        for (at, piece) in self.open() {
            let step = steps
                .entry((&piece.topic, piece.is_deep))
                .or_insert_with(|| Step::to(piece));
            let is_before = |topic: &&str| !piece.is_deep || *topic != piece.topic;
            if going.get(&piece.lane).is_some_and(is_before) || step.is_full() {
                waiting.insert(piece.lane);
            }
            if !waiting.contains(&piece.lane) {
                going.insert(piece.lane, &piece.topic);
                step.bytes += piece.entry.event.payload.get().len();
                step.places.push(at);
            }
        }
        steps.into_values().filter(|step| !step.places.is_empty()).collect()
    }

    /// The entries of a step.
    pub(crate) fn pieces(&self, step: &Step) -> impl Iterator<Item = &Piece<'a>> {
        step.places.iter().filter_map(|at| self.pieces.get(*at))
    }

    /// Writes down what a step answered for its entries, in order.
    pub(crate) fn answered(&mut self, step: &Step, answers: Vec<Receipt>) {
        for (at, receipt) in step.places.iter().zip(answers) {
            let Some(piece) = self.pieces.get_mut(*at) else {
                continue;
            };
            if let Receipt::Unavailable(words) = &receipt {
                self.away = Some(words.clone());
            }
            if receipt != Receipt::Delivered {
                self.stopped.insert(piece.lane);
            }
            piece.receipt = Some(receipt);
        }
    }

    /// A step failed as a whole: the first of each of its lanes is answered with that, what follows is held.
    pub(crate) fn failed(&mut self, step: &Step, receipt: &Receipt) {
        let mut lanes = HashSet::new();
        let answer = |piece: &Piece<'a>| {
            if lanes.insert(piece.lane) {
                receipt.clone()
            } else {
                Receipt::Held
            }
        };
        let answers = self.pieces(step).map(answer).collect();
        self.answered(step, answers);
    }

    /// One receipt per entry of the batch.
    pub(crate) fn receipts(mut self) -> Vec<Receipt> {
        let away = self.away.take().map(Receipt::Unavailable).unwrap_or(Receipt::Held);
        for piece in &mut self.pieces {
            let receipt = if self.stopped.contains(&piece.lane) {
                Receipt::Held
            } else {
                away.clone()
            };
            if piece.receipt.is_none() {
                self.stopped.insert(piece.lane);
                piece.receipt = Some(receipt);
            }
        }
        self.pieces.into_iter().filter_map(|piece| piece.receipt).collect()
    }

    fn open(&self) -> impl Iterator<Item = (usize, &Piece<'a>)> {
        self.pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| piece.receipt.is_none())
    }
}

impl Step {
    fn to(piece: &Piece<'_>) -> Self {
        Self {
            topic: piece.topic.clone(),
            is_deep: piece.is_deep,
            ..Self::default()
        }
    }

    fn is_full(&self) -> bool {
        let entries_max = if self.is_deep { SCRIPTED_MAX } else { PLAIN_MAX };
        self.places.len() >= entries_max || self.bytes >= BYTES_MAX
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

    /// Delivers everything but the entry at `failing`; answers the places of each step, and the receipts.
    fn run(keys: &str, failing: usize) -> (Vec<(bool, Vec<usize>)>, Vec<Receipt>) {
        let entries = entries(keys);
        let batch = Batch {
            entries: &entries.iter().collect::<Vec<_>>(),
            ordering: Ordering::Key,
        };
        let mut waves = Waves::of(&batch, &"t".parse().unwrap());
        let mut sent = Vec::new();
        loop {
            let steps = waves.next();
            if steps.is_empty() {
                return (sent, waves.receipts());
            }
            for step in steps {
                let answer = |at: &usize| match *at == failing {
                    true => Receipt::Refused(String::new()),
                    false => Receipt::Delivered,
                };
                waves.answered(&step, step.places.iter().map(answer).collect());
                sent.push((step.is_deep, step.places));
            }
        }
    }

    #[test]
    fn a_shallow_lane_has_one_entry_under_way_a_deep_one_all() {
        let (sent, _) = run("aab", 99);
        assert_eq!(sent, [(false, vec![0, 2]), (false, vec![1])]);
        let (sent, _) = run("bxxxxxxxxx", 99);
        assert_eq!(sent, [(false, vec![0]), (true, (1..10).collect())]);
    }

    #[test]
    fn what_follows_a_refused_entry_on_a_shallow_lane_is_held() {
        let (sent, receipts) = run("abaab", 2);
        assert_eq!(sent, [(false, vec![0, 1]), (false, vec![2, 4])]);
        assert_eq!(receipts.get(3), Some(&Receipt::Held));
        assert_eq!(receipts.get(4), Some(&Receipt::Delivered));
    }
}
