//! Evidence: what the answers to other entries tell about an entry that is unavailable. Pure.
//!
//! An outage and an entry that is unavailable by itself give the same answer. The next answers to other entries tell them
//! apart: if the destination answers one, and the entry is unavailable once more, the entry fails alone. A restart forgets
//! the evidence, which costs one attempt that does not count.

use std::collections::HashMap;
use std::time::Duration;

use super::Memory;
use crate::destination::Receipt;
use crate::policy::probe::{AFTER_MAX, Probe};
use crate::relay::judge::{Blame, Outage, Tried};
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

    /// Takes note of what was answered in one delivery. Answers who is to blame for each entry that was unavailable, and how long it
    /// is to be left alone.
    pub(super) fn hear<'a>(
        &mut self,
        receipts: impl Iterator<Item = (i64, &'a Receipt)> + Clone,
        pauses: Pauses,
    ) -> HashMap<i64, Blame> {
        self.answers += receipts.clone().filter(|(_, receipt)| is_answer(receipt)).count() as u64;
        if self.unavailable.len() > SEEN_MAX {
            self.unavailable.clear();
        }
        let mut blames = HashMap::new();
        for (id, receipt) in receipts {
            match receipt {
                Receipt::Unavailable { .. } => {
                    blames.insert(id, self.blame(id, pauses));
                }
                Receipt::Held => {}
                Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => {
                    self.unavailable.remove(&id);
                }
            }
        }
        blames
    }

    fn blame(&mut self, id: i64, pauses: Pauses) -> Blame {
        let (unknown, suspect) = (pauses.unknown, pauses.suspect);
        let Some(seen) = self.unavailable.get_mut(&id) else {
            let seen = Seen {
                answers: self.answers, // an outage may begin in the middle of a batch
                is_suspect: false,
            };
            self.unavailable.insert(id, seen);
            return Blame::Unknown { pause: unknown };
        };
        if seen.answers < self.answers {
            seen.answers = self.answers;
            seen.is_suspect = true;
            return Blame::Entry;
        }
        match seen.is_suspect {
            true => Blame::Suspect { pause: suspect },
            false => Blame::Unknown { pause: unknown },
        }
    }
}

/// Whether the destination was there: it took the entry, or said what is wrong with it.
fn is_answer(receipt: &Receipt) -> bool {
    match receipt {
        Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => true,
        Receipt::Unavailable { .. } | Receipt::Held => false,
    }
}

/// How long entries that were unavailable are left alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    /// Those that may be part of an outage.
    pub(super) unknown: Duration,
    /// Those that have failed alone so far.
    pub(super) suspect: Duration,
}

/// The answers of one delivery.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Of those that were unavailable: why.
    pub(super) blames: HashMap<i64, Blame>,
    pub(super) pauses: Pauses,
    /// Nothing else was answered.
    pub(super) outage: Option<Outage>,
    /// How long the route sends nothing then; `None` if the back-off of the process decides.
    pub(super) wait: Option<Duration>,
}

impl Heard {
    pub(super) fn tried<'a>(&self, (row, receipt): (&'a Parked, Receipt)) -> Tried<'a> {
        let blame = self.blames.get(&row.entry.id).copied();
        Tried {
            row,
            receipt,
            blame: blame.unwrap_or(Blame::Unknown {
                pause: self.pauses.unknown,
            }),
        }
    }
}

impl Memory {
    /// Takes note of what was answered. Any answer but `Unavailable` shows that the destination is there.
    pub(super) fn hear<'a>(
        &mut self,
        probe: Probe,
        receipts: impl Iterator<Item = (i64, &'a Receipt)> + Clone,
    ) -> Heard {
        if receipts.clone().any(|(_, receipt)| is_answer(receipt)) {
            self.probing = false;
            self.retry_at = None;
            self.pause.reset();
        }
        let unavailable = receipts.clone().filter_map(|(_, receipt)| match receipt {
            Receipt::Unavailable { after, .. } => Some(after.unwrap_or_default().min(AFTER_MAX)),
            _ => None,
        });
        let Some(after) = unavailable.max() else {
            let blames = self.evidence.hear(receipts, Pauses::default());
            return Heard {
                blames,
                ..Heard::default()
            };
        };
        let pause = self.pause.next_wait();
        let outage = Outage::of(receipts.clone().map(|(_, receipt)| receipt));
        let wait = outage
            .as_ref()
            .and_then(|outage| probe.wait(outage.after, pause, rand::random()));
        let pauses = match wait {
            // Nothing is sent before that; then an operator may have the probe earlier.
            Some(wait) => Pauses {
                unknown: pause,
                suspect: wait,
            },
            None => Pauses {
                unknown: pause.max(after),
                suspect: pause.max(after),
            },
        };
        Heard {
            blames: self.evidence.hear(receipts, pauses),
            pauses,
            outage,
            wait,
        }
    }

    /// How long the route sends nothing after an outage that the log met; `None` if the back-off of the process decides.
    pub(super) fn wait(&mut self, probe: Probe, outage: &Outage) -> Option<Duration> {
        if probe == Probe::Backoff && outage.after.is_none() {
            return None;
        }
        probe.wait(outage.after, self.pause.next_wait(), rand::random())
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
                        _ => Receipt::unavailable("away"),
                    };
                    (id.parse().unwrap(), receipt)
                })
                .collect();
            let blames = evidence.hear(receipts.iter().map(|(id, receipt)| (*id, receipt)), Pauses::default());
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
