//! The way of a batch: in which steps its entries go out, and what each is answered.
//!
//! A step takes entries of one topic, since only their keys are sure to lie on one node. A wave is one step for each topic
//! at the same time; an entry goes in the next wave when an earlier one of its lane goes to another topic in this one.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom::{Batch, Entry, Lane, Receipt, Topic};

/// So much goes in one step: the server does nothing else meanwhile.
const ENTRIES_MAX: usize = 500;
const BYTES_MAX: usize = 1_000_000;

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
    topic: String,
    receipt: Option<Receipt>,
}

/// What goes to one topic in one step: places in the batch.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) topic: String,
    pub(crate) places: Vec<usize>,
    bytes: usize,
}

impl<'a> Waves<'a> {
    pub(crate) fn of(batch: &Batch<'a>, topic: &Topic) -> Self {
        let mut lanes: HashMap<Lane, usize> = HashMap::new();
        let piece = |entry: &&'a Entry| {
            let next = lanes.len();
            Piece {
                entry,
                lane: *lanes.entry(batch.lane(entry)).or_insert(next),
                topic: topic.of(&entry.event.event_type),
                receipt: None,
            }
        };
        Self {
            pieces: batch.entries.iter().map(piece).collect(),
            stopped: HashSet::new(),
            away: None,
        }
    }

    /// What goes out next; nothing when the batch is through.
    pub(crate) fn next(&self) -> Vec<Step> {
        let mut steps: BTreeMap<&str, Step> = BTreeMap::new();
        let mut waiting: HashSet<usize> = self.stopped.clone();
        let mut going: HashMap<usize, &str> = HashMap::new();
        if self.away.is_some() {
            return Vec::new();
        }
        for (at, piece) in self.open() {
            let step = steps.entry(&piece.topic).or_default();
            let is_elsewhere = going.get(&piece.lane).is_some_and(|topic| *topic != piece.topic);
            if is_elsewhere || step.is_full() {
                waiting.insert(piece.lane);
            }
            if !waiting.contains(&piece.lane) {
                going.insert(piece.lane, &piece.topic);
                step.bytes += piece.entry.event.payload.get().len();
                step.places.push(at);
            }
        }
        let named = steps.into_iter().map(|(topic, step)| Step {
            topic: topic.to_owned(),
            ..step
        });
        named.filter(|step| !step.places.is_empty()).collect()
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
    fn is_full(&self) -> bool {
        self.places.len() >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }
}
