//! Evidence: what the answers to other entries tell about an entry that is unavailable. Pure.
//!
//! An outage and an entry that is unavailable by itself give the same answer. The next answers to other entries tell them
//! apart: if the destination answers one, and the entry is unavailable once more, the entry fails alone. A restart forgets
//! the evidence, which costs one attempt that does not count.

use std::collections::HashMap;
use std::time::Duration;

use super::Memory;
use crate::destination::Receipt;
use crate::relay::judge::{Blame, Tried};
use crate::state::parked::Parked;

/// Entries that are remembered; more are forgotten together, which makes each of them `Unknown` once.
const SEEN_MAX: usize = 10_000;

/// Which entries were unavailable, and whether the destination has answered others since.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// How many answers the destination has given that were not `Unavailable`.
    answers: u64,
    unavailable: HashMap<i64, Seen>,
}

/// An entry that was unavailable when it was tried last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// How many answers there had been by then.
    answers: u64,
    /// It was unavailable again after others had been answered.
    is_suspect: bool,
}

impl Evidence {
    /// How many entries were unavailable when they were tried last, and may be part of an outage.
    pub(super) fn unexplained(&self) -> usize {
        self.unavailable.values().filter(|seen| !seen.is_suspect).count()
    }

    /// Forgets entries that were given up.
    pub(super) fn forget(&mut self, dead: &[Parked]) {
        for row in dead {
            self.unavailable.remove(&row.entry.id);
        }
    }

    /// Takes note of what was answered in one delivery. Answers who is to blame for each entry that was unavailable; one that may
    /// be part of an outage is to be left alone for `pause`.
    pub(super) fn hear<'a>(
        &mut self,
        receipts: impl Iterator<Item = (i64, &'a Receipt)> + Clone,
        pause: Duration,
    ) -> HashMap<i64, Blame> {
        self.answers += receipts.clone().filter(|(_, receipt)| is_answer(receipt)).count() as u64;
        if self.unavailable.len() > SEEN_MAX {
            self.unavailable.clear();
        }
        let mut blames = HashMap::new();
        for (id, receipt) in receipts {
            match receipt {
                Receipt::Unavailable(_) => {
                    blames.insert(id, self.blame(id, pause));
                }
                Receipt::Held => {}
                Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => {
                    self.unavailable.remove(&id);
                }
            }
        }
        blames
    }

    fn blame(&mut self, id: i64, pause: Duration) -> Blame {
        let Some(seen) = self.unavailable.get_mut(&id) else {
            let seen = Seen {
                answers: self.answers, // an outage may begin in the middle of a batch
                is_suspect: false,
            };
            self.unavailable.insert(id, seen);
            return Blame::Unknown { pause };
        };
        if seen.answers < self.answers {
            seen.answers = self.answers;
            seen.is_suspect = true;
            return Blame::Entry;
        }
        match seen.is_suspect {
            true => Blame::Suspect { pause },
            false => Blame::Unknown { pause },
        }
    }
}

/// Whether the destination was there: it took the entry, or said what is wrong with it.
fn is_answer(receipt: &Receipt) -> bool {
    match receipt {
        Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => true,
        Receipt::Unavailable(_) | Receipt::Held => false,
    }
}

/// The answers of one delivery.
pub(super) struct Heard {
    /// Of those that were unavailable: why.
    pub(super) blames: HashMap<i64, Blame>,
    pub(super) pause: Duration,
}

impl Heard {
    pub(super) fn tried<'a>(&self, (row, receipt): (&'a Parked, Receipt)) -> Tried<'a> {
        let blame = self.blames.get(&row.entry.id).copied();
        Tried {
            row,
            receipt,
            blame: blame.unwrap_or(Blame::Unknown { pause: self.pause }),
        }
    }
}

impl Memory {
    /// Takes note of what was answered. Any answer but `Unavailable` shows that the destination is there.
    pub(super) fn hear<'a>(&mut self, receipts: impl Iterator<Item = (i64, &'a Receipt)> + Clone) -> Heard {
        if receipts.clone().any(|(_, receipt)| is_answer(receipt)) {
            self.probing = false;
            self.retry_at = None;
            self.pause.reset();
        }
        let pause = match receipts
            .clone()
            .any(|(_, receipt)| matches!(receipt, Receipt::Unavailable(_)))
        {
            true => self.pause.next_wait(),
            false => Duration::ZERO,
        };
        let blames = self.evidence.hear(receipts, pause);
        Heard { blames, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step is one delivery: `1?` is entry 1, unavailable; `+` delivered, `-` refused, `.` held. The blame of each
    /// unavailable entry follows the arrow: `u` unknown, `s` suspect, `e` the entry.
    fn check(steps: &[(&str, &str)]) {
        let mut evidence = Evidence::default();
        for (given, expected) in steps {
            let receipts: Vec<(i64, Receipt)> = given
                .split_whitespace()
                .map(|text| {
                    let (id, answer) = text.split_at(1);
                    let receipt = match answer {
                        "+" => Receipt::Delivered,
                        "-" => Receipt::Refused("no".into()),
                        "." => Receipt::Held,
                        _ => Receipt::Unavailable("away".into()),
                    };
                    (id.parse().unwrap(), receipt)
                })
                .collect();
            let blames = evidence.hear(receipts.iter().map(|(id, receipt)| (*id, receipt)), Duration::ZERO);
            let mut ids: Vec<i64> = blames.keys().copied().collect();
            ids.sort_unstable();
            let says: String = ids
                .iter()
                .map(|id| match blames[id] {
                    Blame::Unknown { .. } => 'u',
                    Blame::Suspect { .. } => 's',
                    Blame::Entry => 'e',
                })
                .collect();
            assert_eq!(says, *expected, "{given} in {steps:?}");
        }
    }

    #[test]
    fn an_outage_is_nobodys_fault() {
        check(&[("1?", "u"), ("1?", "u"), ("2? 3?", "uu"), ("1? 2?", "uu")]);
        check(&[("2+", ""), ("1?", "u"), ("1?", "u")]);
        check(&[("2+ 1?", "u"), ("1?", "u"), ("1? 3?", "uu")]);
        check(&[("1-", ""), ("1?", "u"), ("2? 1?", "uu"), ("1+ 2+", "")]);
    }

    #[test]
    fn an_entry_that_is_unavailable_before_and_after_another_is_answered_is_to_blame() {
        check(&[
            ("1?", "u"),
            ("2-", ""),
            ("1?", "e"),
            ("1?", "s"),
            ("3+", ""),
            ("1?", "e"),
        ]);
        check(&[("1? 2+", "u"), ("1? 3+", "e"), ("1? 4+", "e")]);
        check(&[("1? 2? 3+", "uu"), ("4+", ""), ("1? 2?", "ee"), ("1? 2?", "ss")]);
    }

    #[test]
    fn an_entry_that_was_answered_begins_anew() {
        check(&[("1? 2+", "u"), ("1-", ""), ("1?", "u"), ("1?", "u")]);
        check(&[("1? 2+", "u"), ("1. 3+", ""), ("1?", "e")]);
    }
}
