//! The history checker: compares the committed events with their effects, and checks the order.
//!
//! A writer gives every event of a key the next number of that key, starting at 1, so one number per key says all
//! that was committed. Pure and compact (four bytes per effect): it keeps up with millions of events.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

/// The committed events: for each key their number. Their versions are 1, 2, … up to that number.
pub type Truth = HashMap<String, u32>;

/// The received events, in order of arrival. A receiver that must have one effect per event records effects; one that
/// may see an event twice records arrivals and reads [`Findings::is_complete`].
#[derive(Clone, Debug, Default)]
pub struct History {
    keys: HashMap<String, Vec<u32>>,
    count: u64,
}

/// The result of the checker. All but `events` are zero when the contract was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// How many events were committed.
    pub events: u64,
    /// Committed, and never received.
    pub lost: u64,
    /// Received, and never committed.
    pub phantom: u64,
    /// Received once more than once.
    pub double_effects: u64,
    /// Received for the first time after a later event of the same key.
    pub order_violations: u64,
}

impl History {
    /// Records that `version` of `key` had its effect, after everything recorded before.
    pub fn record(&mut self, key: &str, version: u32) {
        match self.keys.get_mut(key) {
            Some(versions) => versions.push(version),
            None => {
                self.keys.insert(key.to_owned(), vec![version]);
            }
        }
        self.count += 1;
    }

    /// How many effects were recorded, repeated ones too.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The keys that had effects, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.keys.keys()
    }

    /// The versions of a key, in order of arrival.
    pub fn versions(&self, key: &str) -> &[u32] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// Compares with what was committed.
    pub fn check(&self, truth: &Truth) -> Findings {
        let committed = |key: &str| truth.get(key).copied().unwrap_or(0);
        let mut findings = Findings {
            events: truth.values().copied().map(u64::from).sum(),
            ..Findings::default()
        };
        let mut found: u64 = 0;
        for (key, versions) in &self.keys {
            found += findings.add_key(versions, committed(key));
        }
        findings.lost = findings.events - found;
        findings
    }

    /// The first `max` keys on which something is wrong, in words, for a person who has to find out why.
    pub fn explain(&self, truth: &Truth, max: usize) -> Vec<String> {
        let none = Vec::new();
        let mut keys: Vec<&String> = truth
            .keys()
            .chain(self.keys.keys().filter(|key| !truth.contains_key(*key)))
            .collect();
        keys.sort();
        let words = keys.into_iter().filter_map(|key| {
            let committed = truth.get(key).copied().unwrap_or(0);
            explain_key(key, self.keys.get(key).unwrap_or(&none), committed)
        });
        words.take(max).collect()
    }
}

impl Findings {
    /// Nothing lost, nothing invented, nothing twice, every key in order.
    pub fn is_exact(&self) -> bool {
        self.is_complete() && self.double_effects == 0
    }

    /// As [`Findings::is_exact`], but for a receiver to which an event may come again.
    pub fn is_complete(&self) -> bool {
        self.lost == 0 && self.phantom == 0 && self.order_violations == 0
    }

    /// Counts one key's faults; answers how many of its committed events were found.
    fn add_key(&mut self, versions: &[u32], committed: u32) -> u64 {
        let mut seen = Seen::new(committed);
        let mut highest = 0;
        for version in versions.iter().copied() {
            match seen.insert(version) {
                Sight::First if version < highest => self.order_violations += 1,
                Sight::First => {}
                Sight::Again => self.double_effects += 1,
                Sight::Phantom => self.phantom += 1,
            }
            highest = highest.max(version);
        }
        seen.found
    }
}

/// The versions of one key met so far: a bit for each committed one, a set for those that cannot be.
struct Seen {
    committed: u32,
    bits: Vec<u64>,
    phantoms: HashSet<u32>,
    found: u64,
}

enum Sight {
    First,
    Again,
    Phantom,
}

impl Seen {
    fn new(committed: u32) -> Self {
        Self {
            committed,
            bits: vec![0; committed as usize / 64 + 1],
            phantoms: HashSet::new(),
            found: 0,
        }
    }

    fn insert(&mut self, version: u32) -> Sight {
        if version == 0 || version > self.committed {
            return if self.phantoms.insert(version) {
                Sight::Phantom
            } else {
                Sight::Again
            };
        }
        let bit = 1_u64 << (version % 64);
        match self.bits.get_mut(version as usize / 64) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.found += 1;
                Sight::First
            }
            _ => Sight::Again,
        }
    }
}

/// Where a key's history first leaves 1, 2, 3 …, or that it ends too early.
fn explain_key(key: &str, versions: &[u32], committed: u32) -> Option<String> {
    let wrong = versions
        .iter()
        .zip(1..)
        .position(|(version, expected)| *version != expected);
    match wrong {
        Some(at) => {
            let around: Vec<u32> = versions.iter().skip(at.saturating_sub(3)).take(8).copied().collect();
            Some(format!(
                "{key}: of {committed} committed, number {} to arrive is not it: … {around:?} …",
                at + 1
            ))
        }
        None if versions.len() != committed as usize => {
            Some(format!("{key}: {} arrived of {committed} committed", versions.len()))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `truth` and `arrivals` name keys by letter; findings as (events, lost, phantom, double, order).
    fn check(truth: &[(&str, u32)], arrivals: &[(&str, u32)], expected: (u64, u64, u64, u64, u64)) {
        let truth: Truth = truth.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        let mut history = History::default();
        for (key, version) in arrivals {
            history.record(key, *version);
        }
        let found = history.check(&truth);
        let found_numbers = (
            found.events,
            found.lost,
            found.phantom,
            found.double_effects,
            found.order_violations,
        );
        assert_eq!(found_numbers, expected, "truth {truth:?}, arrivals {arrivals:?}");
        assert_eq!(found.is_exact(), expected.1 + expected.2 + expected.3 + expected.4 == 0);
        assert_eq!(
            found.is_exact(),
            history.explain(&truth, 10).is_empty(),
            "what is wrong can be explained"
        );
    }

    #[test]
    fn what_came_as_committed_is_exact() {
        check(&[], &[], (0, 0, 0, 0, 0));
        check(&[("a", 2), ("b", 1)], &[("a", 1), ("b", 1), ("a", 2)], (3, 0, 0, 0, 0));
        check(&[("a", 0)], &[], (0, 0, 0, 0, 0));
    }

    #[test]
    fn what_never_came_is_lost() {
        check(&[("a", 3)], &[("a", 1), ("a", 2)], (3, 1, 0, 0, 0));
        check(&[("a", 3)], &[("a", 1), ("a", 3)], (3, 1, 0, 0, 0));
        check(&[("a", 2), ("b", 2)], &[("a", 1), ("a", 2)], (4, 2, 0, 0, 0));
    }

    #[test]
    fn what_was_never_committed_is_a_phantom() {
        check(&[("a", 1)], &[("a", 1), ("a", 2)], (1, 0, 1, 0, 0));
        check(&[("a", 1)], &[("a", 0), ("a", 1)], (1, 0, 1, 0, 0));
        check(&[("a", 1)], &[("a", 1), ("z", 1)], (1, 0, 1, 0, 0));
        check(&[], &[("z", 1), ("z", 1)], (0, 0, 1, 1, 0));
    }

    #[test]
    fn what_came_again_is_a_double_effect_and_not_disorder() {
        check(
            &[("a", 3)],
            &[("a", 1), ("a", 2), ("a", 1), ("a", 2), ("a", 3)],
            (3, 0, 0, 2, 0),
        );
        check(&[("a", 1)], &[("a", 1), ("a", 1), ("a", 1)], (1, 0, 0, 2, 0));
    }

    #[test]
    fn what_came_after_its_successor_is_out_of_order() {
        check(&[("a", 3)], &[("a", 1), ("a", 3), ("a", 2)], (3, 0, 0, 0, 1));
        check(&[("a", 3)], &[("a", 3), ("a", 2), ("a", 1)], (3, 0, 0, 0, 2));
        check(
            &[("a", 2), ("b", 2)],
            &[("b", 2), ("a", 1), ("a", 2), ("b", 1)],
            (4, 0, 0, 0, 1),
        );
    }

    #[test]
    fn versions_around_a_word_border_are_told_apart() {
        let all: Vec<(&str, u32)> = (1..=200).map(|version| ("a", version)).collect();
        check(&[("a", 200)], &all, (200, 0, 0, 0, 0));
        check(&[("a", 200)], all.get(..199).unwrap(), (200, 1, 0, 0, 0));
        check(&[("a", 64)], &[("a", 64)], (64, 63, 0, 0, 0));
    }

    #[test]
    fn a_million_events_are_checked_in_one_pass() {
        let mut history = History::default();
        let keys: Vec<String> = (0..100).map(|key| format!("key-{key}")).collect();
        for version in 1..=10_000 {
            for key in &keys {
                history.record(key, version);
            }
        }
        let mut truth: Truth = keys.into_iter().map(|key| (key, 10_000)).collect();
        assert!(history.check(&truth).is_exact());
        truth.insert("key-7".to_owned(), 10_002);
        assert_eq!(
            history.check(&truth),
            Findings {
                events: 1_000_002,
                lost: 2,
                ..Findings::default()
            }
        );
        assert_eq!(history.explain(&truth, 10), ["key-7: 10000 arrived of 10002 committed"]);
    }

    #[test]
    fn findings_have_the_documented_names() {
        let json = serde_json::to_value(Findings {
            events: 1,
            ..Findings::default()
        })
        .unwrap();
        let expected = serde_json::json!(
            { "events": 1, "lost": 0, "phantom": 0, "double_effects": 0, "order_violations": 0 }
        );
        assert_eq!(json, expected);
    }
}
