//! Counting deliveries, and when they came.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::site::Tell;

/// A relay that delivers nothing for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a waiting task looks.
const LOOK: Duration = Duration::from_millis(200);

/// The arrivals so far; shared between the receiver and the task that waits for them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    arrivals: Mutex<Arrivals>,
    changed: Notify,
}

/// Number and times of arrivals.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub(super) count: usize,
    /// When the first call came, and how many it brought.
    first: Option<(Instant, usize)>,
    last: Option<Instant>,
    /// When each event came, if anybody wants to know.
    pub(super) times: Option<HashMap<Uuid, Instant>>,
    wanted: usize,
}

impl Tally {
    /// One call of the receiver with these events.
    pub(super) fn arrive(&self, ids: impl ExactSizeIterator<Item = Uuid>) {
        let now = Instant::now();
        let mut arrivals = self.lock();
        let count = ids.len();
        arrivals.count += count;
        arrivals.first.get_or_insert((now, count));
        arrivals.last = Some(now);
        if let Some(times) = &mut arrivals.times {
            for id in ids {
                times.entry(id).or_insert(now); // a repeat is no new arrival
            }
        }
        if arrivals.is_complete() {
            self.changed.notify_waiters();
        }
    }

    /// Starts to count anew, up to `wanted`; `with_times` remembers when each event came.
    pub(super) fn expect(&self, wanted: usize, with_times: bool) {
        let times = with_times.then(|| HashMap::with_capacity(wanted));
        *self.lock() = Arrivals {
            wanted,
            times,
            ..Arrivals::default()
        };
    }

    /// Waits until all that is expected has come, and hands it out.
    pub(super) async fn complete(&self, doing: &str, tell: Tell) -> Result<Arrivals> {
        let (mut seen, mut moved_at) = (0, Instant::now());
        loop {
            let changed = self.changed.notified();
            let (arrived, wanted) = {
                let mut arrivals = self.lock();
                if arrivals.is_complete() {
                    return Ok(std::mem::take(&mut *arrivals));
                }
                (arrivals.arrived(), arrivals.wanted)
            };
            if arrived > seen {
                (seen, moved_at) = (arrived, Instant::now());
            } else if moved_at.elapsed() > PATIENCE {
                bail!(
                    "{arrived} of {wanted} events arrived, and no more for {} s",
                    PATIENCE.as_secs()
                );
            }
            tell(&format!("{doing}: {arrived} of {wanted}"));
            // The time is up or it has changed: either way it is time to look.
            drop(tokio::time::timeout(LOOK, changed).await);
        }
    }

    /// How many of the events that are expected have come.
    pub(super) fn arrived(&self) -> usize {
        self.lock().arrived()
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrivals {
    fn arrived(&self) -> usize {
        self.times.as_ref().map_or(self.count, HashMap::len)
    }

    fn is_complete(&self) -> bool {
        self.wanted > 0 && self.arrived() >= self.wanted
    }

    /// Events per second from the first call to the last; since `begun` when one call brought them all.
    pub(super) fn per_s(&self, begun: Instant) -> f64 {
        let per_s = |count: usize, took: Duration| count as f64 / took.as_secs_f64();
        match (self.first, self.last) {
            (Some((first, brought)), Some(last)) if brought < self.count => per_s(self.count - brought, last - first),
            (_, Some(last)) => per_s(self.count, last - begun),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeats_are_not_arrivals() {
        let tally = Tally::default();
        let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
        tally.expect(2, true);
        tally.arrive([one, one].into_iter());
        assert!(!tally.lock().is_complete());
        tally.arrive([two].into_iter());
        assert_eq!(tally.complete("test", |_| ()).await.unwrap().times.unwrap().len(), 2);
    }

    #[test]
    fn a_rate_leaves_out_what_the_first_call_brought() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let arrivals = Arrivals {
            count: 300,
            first: Some((at(1), 100)),
            last: Some(at(3)),
            ..Arrivals::default()
        };
        assert!((arrivals.per_s(begun) - 100.0).abs() < 1e-9);
        let at_once = Arrivals {
            count: 100,
            first: Some((at(1), 100)),
            last: Some(at(1)),
            ..Arrivals::default()
        };
        assert!((at_once.per_s(begun) - 100.0).abs() < 1e-9);
    }
}
