//! Judging: turns the receipts of a delivery into a settlement. Pure: each case is one row of a test.

use std::collections::HashSet;
use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::clock;
use crate::destination::Receipt;
use crate::event::Key;
use crate::event::entry::Entry;
use crate::policy::Dead;
use crate::policy::ordering::{Lane, Lanes, Ordering};
use crate::policy::probe::AFTER_MAX;
use crate::policy::retry::Verdict;
use crate::relay::health::Counts;
use crate::route::Route;
use crate::state::parked::{Parked, Parking};
use crate::store::table::storable;

/// The changes of one delivery, written in one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settlement {
    /// How many entries were taken off the front of what was judged.
    pub(crate) settled: usize,
    /// How many of them reached the destination.
    pub(crate) delivered: u64,
    /// The events among these whose delivery is recorded.
    pub(crate) record: Vec<Uuid>,
    /// New parked rows, in order.
    pub(crate) park: Vec<Parked>,
    /// Parked rows that changed.
    pub(crate) change: Vec<Parked>,
    /// Parked rows that are done.
    pub(crate) unpark: Vec<(i64, Uuid)>,
    /// New dead letters.
    pub(crate) dead: Vec<Parked>,
    /// Lanes that stand still from now on.
    pub(crate) blocked: Vec<Lane>,
    /// Keys that a parked row left.
    pub(crate) left: HashSet<Key>,
    /// The destination cannot be reached: nothing is settled, the route waits.
    pub(crate) down: Option<Outage>,
}

/// A delivery that was answered with nothing but [`Receipt::Unavailable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// In the words of the destination.
    pub(crate) says: String,
    /// The longest time for which the destination wants to be left alone, if it says so.
    pub(crate) after: Option<Duration>,
}

impl Outage {
    /// The outage that these answers show, if they do.
    pub(crate) fn of<'a>(receipts: impl Iterator<Item = &'a Receipt>) -> Option<Self> {
        let mut outage: Option<Self> = None;
        for receipt in receipts {
            match receipt {
                Receipt::Unavailable { says, after } => {
                    let known = outage.and_then(|outage| outage.after);
                    outage = Some(Self {
                        says: says.clone(),
                        after: known.max(*after),
                    });
                }
                Receipt::Held => {}
                Receipt::Delivered | Receipt::Refused(_) | Receipt::Rejected(_) => return None,
            }
        }
        outage
    }
}

impl Settlement {
    /// Whether it is progress and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        let has_rows = !self.park.is_empty() || !self.change.is_empty() || !self.unpark.is_empty();
        !has_rows && self.dead.is_empty() && self.record.is_empty()
    }

    /// Its counts, for health and metrics.
    pub(crate) fn counts(&self) -> Counts {
        let is_failure = |row: &&Parked| row.state == Parking::Retry && row.error.is_some();
        let failed = self.park.iter().chain(&self.change).filter(is_failure).count() + self.dead.len();
        Counts {
            delivered: self.delivered,
            failed: failed as u64,
            retried: 0,
            parked: self.park.len() as u64,
            dead: self.dead.len() as u64,
        }
    }
}

/// The circumstances of a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge<'a> {
    pub(crate) route: &'a Route,
    pub(crate) now: OffsetDateTime,
    /// In `0..1`: spreads retry delays.
    pub(crate) roll: f64,
}

/// A parked entry that was tried again.
#[derive(Clone, Debug)]
pub(crate) struct Tried<'a> {
    pub(crate) row: &'a Parked,
    pub(crate) receipt: Receipt,
    /// If it was unavailable: what is known about the destination.
    pub(crate) blame: Blame,
}

/// Why an entry was unavailable, as far as the answers to other entries tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It may be an outage: the attempt does not count, and the entry is tried again after `pause`.
    Unknown { pause: Duration },
    /// The destination answers other entries, and so far this one fails alone. Whether nothing else was answered since its last
    /// attempt is `Unknown` again, but the entry waits by its policy, and at least for `pause`.
    Suspect { pause: Duration },
    /// The destination has answered other entries since this one was unavailable before: the attempt counts.
    Entry,
}

/// The fate of one refused entry.
enum Fate {
    Retry(Parked),
    Dead(Parked),
}

impl Fate {
    /// The same, but not tried again before the destination wants to be asked.
    fn no_sooner(self, after: Option<Duration>) -> Self {
        match self {
            Self::Retry(row) => Self::Retry(Parked {
                delay: row.delay.max(after.unwrap_or_default().min(AFTER_MAX)),
                ..row
            }),
            Self::Dead(row) => Self::Dead(row),
        }
    }
}

impl<'a> Judge<'a> {
    /// Judges by the clock of this process.
    pub(crate) fn now(route: &'a Route) -> Self {
        Self {
            route,
            now: clock::now(),
            roll: rand::random(),
        }
    }

    /// Judges entries read from the log. `blocked` lanes were not sent; the others carry a receipt.
    pub(crate) fn page(&self, entries: &[(&Entry, Option<Receipt>)], blocked: &Lanes) -> Settlement {
        match self.down(entries) {
            None => self.past(entries, blocked),
            down => Settlement {
                down,
                ..Settlement::default()
            },
        }
    }

    /// The same, also when nothing was answered: what is unavailable is parked.
    pub(crate) fn past(&self, entries: &[(&Entry, Option<Receipt>)], blocked: &Lanes) -> Settlement {
        let mut settlement = Settlement::default();
        let mut still: Lanes = Lanes::new();
        // In an outage the whole route waits, and an operator may end that wait for all entries.
        let is_outage = Outage::of(entries.iter().filter_map(|(_, receipt)| receipt.as_ref())).is_some();
        for (entry, receipt) in entries {
            if *receipt == Some(Receipt::Delivered) && blocked.is_empty() && still.is_empty() {
                self.deliver(entry, &mut settlement); // what nearly every entry is, without a lane made for it
                settlement.settled += 1;
                continue;
            }
            let lane = self.route.ordering.lane(entry);
            let stands = blocked.contains(&lane) || still.contains(&lane);
            match receipt {
                Some(Receipt::Delivered) if !stands => self.deliver(entry, &mut settlement),
                // Strict routes read no further than the entry that stopped them.
                _ if self.route.ordering == Ordering::Strict && stands => break,
                Some(Receipt::Held) if self.route.ordering == Ordering::Strict => break,
                _ if stands => settlement.park.push(waiting(entry)),
                Some(Receipt::Refused(error)) => {
                    let fate = self.fate(fresh(entry), error, true, false);
                    self.park_new(fate, lane, &mut still, &mut settlement);
                }
                Some(Receipt::Unavailable { says, after }) => {
                    let alone = after.filter(|_| !is_outage);
                    let fate = self.fate(fresh(entry), says, false, false).no_sooner(alone);
                    self.park_new(fate, lane, &mut still, &mut settlement);
                }
                Some(Receipt::Rejected(error)) => {
                    let fate = self.fate(fresh(entry), error, true, true);
                    self.park_new(fate, lane, &mut still, &mut settlement);
                }
                // Not sent although its lane is free: the one before it was given up. It goes first next time.
                Some(Receipt::Held | Receipt::Delivered) | None => {
                    settlement.park.push(Parked {
                        state: Parking::Retry,
                        ..waiting(entry)
                    });
                    still.insert(lane);
                }
            }
            settlement.settled += 1;
        }
        settlement.blocked = still.into_iter().collect();
        settlement
    }

    /// Judges parked entries that were tried again, in order per key.
    pub(crate) fn retried(&self, tried: &[Tried<'_>]) -> Settlement {
        let mut settlement = Settlement::default();
        for Tried { row, receipt, blame } in tried {
            let key = row.entry.event.key();
            settlement.settled += 1;
            let fate = match receipt {
                Receipt::Delivered => {
                    self.deliver(&row.entry, &mut settlement);
                    settlement.unpark.push(row.identity());
                    settlement.left.insert(key);
                    continue;
                }
                Receipt::Held => continue,
                Receipt::Refused(error) => self.fate((*row).clone(), error, true, false),
                Receipt::Unavailable { says, after } => {
                    let fate = self.unavailable((*row).clone(), says, *blame);
                    fate.no_sooner(after.filter(|_| *blame == Blame::Entry)) // the pause of a blame has it already
                }
                Receipt::Rejected(error) => self.fate((*row).clone(), error, true, true),
            };
            match fate {
                Fate::Retry(row) => settlement.change.push(row),
                Fate::Dead(row) if self.route.dead == Dead::Hold => {
                    settlement.change.push(Parked {
                        state: Parking::Held,
                        ..row.clone()
                    });
                    settlement.dead.push(row);
                }
                Fate::Dead(row) => {
                    settlement.unpark.push(row.identity());
                    settlement.left.insert(key);
                    settlement.dead.push(row);
                }
            }
        }
        settlement
    }

    fn deliver(&self, entry: &Entry, settlement: &mut Settlement) {
        settlement.delivered += 1;
        if self.route.records_deliveries() {
            settlement.record.push(entry.event.id);
        }
    }

    /// The destination is down when it answered nothing else, unless an entry is too old to wait for it.
    fn down(&self, entries: &[(&Entry, Option<Receipt>)]) -> Option<Outage> {
        let is_too_old = |(entry, receipt): &(&Entry, Option<Receipt>)| {
            matches!(receipt, Some(Receipt::Unavailable { .. }))
                && self.route.retry.is_expired(entry.created_at, self.now)
        };
        match entries.iter().any(is_too_old) {
            true => None,
            false => Outage::of(entries.iter().filter_map(|(_, receipt)| receipt.as_ref())),
        }
    }

    /// An entry that was unavailable when it was tried again. Without blame only its age can end it.
    fn unavailable(&self, row: Parked, error: &str, blame: Blame) -> Fate {
        let attempts = row.attempts;
        match (self.fate(row, error, blame == Blame::Entry, false), blame) {
            (Fate::Retry(row), Blame::Unknown { pause }) => Fate::Retry(Parked { delay: pause, ..row }),
            (Fate::Retry(row), Blame::Suspect { pause }) => Fate::Retry(Parked {
                delay: self.route.retry.delays.after(attempts, self.roll).max(pause),
                ..row
            }),
            (fate, _) => fate,
        }
    }

    fn fate(&self, row: Parked, error: &str, counts: bool, is_final: bool) -> Fate {
        let attempts = row.attempts + u32::from(counts);
        let row = Parked {
            attempts,
            error: Some(storable(error)),
            failed_at: row.failed_at.or(Some(self.now)),
            ..row
        };
        // An attempt that does not count against `attempts_max` is judged as the first, by age alone.
        let tried = if counts { attempts } else { 0 };
        match self.route.retry.judge(tried, row.entry.created_at, self.now, self.roll) {
            Verdict::RetryAfter(delay) if !is_final => Fate::Retry(Parked {
                state: Parking::Retry,
                delay,
                ..row
            }),
            Verdict::RetryAfter(_) | Verdict::Dead => Fate::Dead(row),
        }
    }

    fn park_new(&self, fate: Fate, lane: Lane, still: &mut Lanes, settlement: &mut Settlement) {
        match fate {
            Fate::Retry(row) => {
                still.insert(lane);
                settlement.park.push(row);
            }
            Fate::Dead(row) => {
                if self.route.dead == Dead::Hold {
                    still.insert(lane);
                    settlement.park.push(Parked {
                        state: Parking::Held,
                        ..row.clone()
                    });
                }
                settlement.dead.push(row);
            }
        }
    }
}

fn fresh(entry: &Entry) -> Parked {
    Parked::untried(entry.clone(), Parking::Retry)
}

fn waiting(entry: &Entry) -> Parked {
    Parked::untried(entry.clone(), Parking::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::policy::retry::{Delays, Retry};
    use crate::route::To;
    use crate::store::table::storable;
    use async_trait::async_trait;
    use serde_json::value::RawValue;
    use std::sync::Arc;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

    #[derive(Debug)]
    struct Nowhere;

    #[async_trait]
    impl crate::destination::Destination for Nowhere {
        async fn deliver(&self, _batch: &crate::destination::Batch<'_>) -> Vec<Receipt> {
            Vec::new()
        }
    }

    fn route(ordering: Ordering, dead: Dead, attempts_max: u32) -> Route {
        Route {
            ordering,
            dead,
            retry: Retry {
                delays: Delays::Fixed(Duration::from_secs(1)),
                attempts_max: Some(attempts_max),
                age_max: Some(Duration::from_secs(3600)),
            },
            ..Route::new("r", To::Destination(Arc::new(Nowhere)))
        }
    }

    fn entry(id: i64, key: &str) -> Entry {
        let payload = RawValue::from_string("1".into()).unwrap();
        Entry {
            id,
            event: Event::new("t", "k", key, payload).unwrap(),
            created_at: NOW,
        }
    }

    /// `a1+` is key a, delivered; `-` refused, `!` rejected, `.` held, `?` unavailable, ` ` not sent. The answer reads: settled,
    /// then each parked row as id + state, then dead ids after a dagger.
    fn check(route: &Route, blocked: &[&str], given: &[&str], expected: &str) {
        let entries: Vec<(Entry, Option<Receipt>)> = given
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let receipt = match text.chars().last() {
                    Some('+') => Some(Receipt::Delivered),
                    Some('-') => Some(Receipt::Refused("no".into())),
                    Some('!') => Some(Receipt::Rejected("never".into())),
                    Some('.') => Some(Receipt::Held),
                    Some('?') => Some(Receipt::unavailable("away")),
                    _ => None,
                };
                (entry(i64::try_from(at).unwrap() + 1, &text[..1]), receipt)
            })
            .collect();
        let blocked: Lanes = blocked.iter().map(|key| route.ordering.lane(&entry(0, key))).collect();
        let judged: Vec<(&Entry, Option<Receipt>)> = entries
            .iter()
            .map(|(entry, receipt)| (entry, receipt.clone()))
            .collect();
        let settlement = Judge {
            route,
            now: NOW,
            roll: 0.0,
        }
        .page(&judged, &blocked);
        let mut says = settlement.down.map_or_else(
            || settlement.settled.to_string(),
            |outage| format!("down {}", outage.says),
        );
        for row in &settlement.park {
            says += &format!(" {}{}", row.entry.id, format!("{:?}", row.state).to_lowercase());
        }
        for row in &settlement.dead {
            says += &format!(" †{}", row.entry.id);
        }
        assert_eq!(says, expected, "{given:?} on {:?}/{:?}", route.ordering, route.dead);
    }

    #[test]
    fn a_refused_entry_holds_its_own_key_only() {
        let route = route(Ordering::Key, Dead::Skip, 3);
        check(&route, &[], &["a+", "b+"], "2");
        check(&route, &[], &["a-", "b+", "a."], "3 1retry 3wait");
        check(&route, &["a"], &["a ", "b+", "a "], "3 1wait 3wait");
    }

    #[test]
    fn a_dead_letter_is_skipped_or_holds_its_key() {
        let skip = route(Ordering::Key, Dead::Skip, 1);
        check(&skip, &[], &["a-", "b+"], "2 †1");
        check(&skip, &[], &["a-", "a.", "a."], "3 2retry 3wait †1");
        check(&skip, &[], &["a!", "b+"], "2 †1");
        let hold = route(Ordering::Key, Dead::Hold, 1);
        check(&hold, &[], &["a-", "a.", "b+"], "3 1held 2wait †1");
    }

    #[test]
    fn a_strict_route_stops_at_what_it_could_not_deliver() {
        check(
            &route(Ordering::Strict, Dead::Skip, 3),
            &[],
            &["a+", "b-", "c.", "d."],
            "2 2retry",
        );
        check(
            &route(Ordering::Strict, Dead::Skip, 1),
            &[],
            &["a+", "b-", "c.", "d."],
            "2 †2",
        );
        check(
            &route(Ordering::Strict, Dead::Hold, 1),
            &[],
            &["a+", "b-", "c."],
            "2 2held †2",
        );
    }

    #[test]
    fn without_order_each_entry_waits_alone() {
        check(
            &route(Ordering::None, Dead::Skip, 3),
            &[],
            &["a-", "a+", "a-"],
            "3 1retry 3retry",
        );
    }

    #[test]
    fn a_destination_that_is_down_settles_nothing() {
        let route = route(Ordering::Key, Dead::Skip, 1);
        check(&route, &[], &["a?", "b?", "a."], "down away");
        check(&route, &["c"], &["c ", "a?"], "down away");
        check(&route, &[], &["a+", "b?"], "2 2retry");
    }

    #[test]
    fn an_entry_too_old_to_wait_for_its_destination_dies_after_one_try() {
        let route = route(Ordering::Strict, Dead::Skip, 100);
        let old = Entry {
            created_at: NOW - Duration::from_secs(3601),
            ..entry(1, "a")
        };
        let judged = [(&old, Some(Receipt::unavailable("away")))];
        let settlement = Judge {
            route: &route,
            now: NOW,
            roll: 0.0,
        }
        .page(&judged, &Lanes::new());
        assert_eq!((settlement.settled, settlement.dead.len()), (1, 1));
    }

    #[test]
    fn what_others_say_can_be_stored() {
        assert_eq!(storable("a\0b"), "ab");
        assert_eq!(storable(&"x".repeat(10_000)).len(), 4_000);
    }

    #[test]
    fn a_retried_entry_leaves_stays_or_dies() {
        let check = |dead: Dead, attempts: u32, receipt: Receipt, expected: (usize, usize, usize, usize)| {
            let route = route(Ordering::Key, dead, 3);
            let row = Parked {
                attempts,
                ..fresh(&entry(7, "a"))
            };
            let done = Judge {
                route: &route,
                now: NOW,
                roll: 0.0,
            }
            .retried(&[Tried {
                row: &row,
                receipt: receipt.clone(),
                blame: Blame::Unknown { pause: Duration::ZERO },
            }]);
            let counts = (done.unpark.len(), done.change.len(), done.dead.len(), done.left.len());
            assert_eq!(counts, expected, "{dead:?} {attempts} {receipt:?}");
        };
        check(Dead::Skip, 1, Receipt::Delivered, (1, 0, 0, 1));
        check(Dead::Skip, 1, Receipt::Refused("no".into()), (0, 1, 0, 0));
        check(Dead::Skip, 2, Receipt::Refused("no".into()), (1, 0, 1, 1));
        check(Dead::Hold, 2, Receipt::Refused("no".into()), (0, 1, 1, 0));
        check(Dead::Skip, 2, Receipt::unavailable("away"), (0, 1, 0, 0));
        check(Dead::Skip, 0, Receipt::Rejected("never".into()), (1, 0, 1, 1));
        check(Dead::Skip, 0, Receipt::Held, (0, 0, 0, 0));
    }

    #[test]
    fn an_unavailable_attempt_counts_only_if_the_destination_answers_others() {
        let pause = Duration::from_secs(2);
        let check = |blame: Blame, attempts: u32, age_s: u64, expected: Option<(u32, Duration)>| {
            let route = route(Ordering::Key, Dead::Skip, 3);
            let row = Parked {
                attempts,
                ..fresh(&Entry {
                    created_at: NOW - Duration::from_secs(age_s),
                    ..entry(7, "a")
                })
            };
            let done = Judge {
                route: &route,
                now: NOW,
                roll: 0.0,
            }
            .retried(&[Tried {
                row: &row,
                receipt: Receipt::unavailable("away"),
                blame,
            }]);
            let kept = done.change.first().map(|row| (row.attempts, row.delay));
            assert_eq!(kept, expected, "{blame:?} after {attempts} attempts, {age_s} s old");
            assert_eq!(done.dead.len(), usize::from(expected.is_none()));
        };
        let second = Duration::from_secs(1);
        check(Blame::Unknown { pause }, 2, 0, Some((2, pause)));
        check(Blame::Unknown { pause: second / 10 }, 2, 0, Some((2, second / 10)));
        check(Blame::Suspect { pause }, 2, 0, Some((2, pause)));
        check(Blame::Suspect { pause: second / 10 }, 2, 0, Some((2, second)));
        check(Blame::Entry, 1, 0, Some((2, second)));
        check(Blame::Entry, 2, 0, None);
        check(Blame::Unknown { pause }, 0, 3601, None);
        check(Blame::Suspect { pause }, 0, 3601, None);
    }
}
