//! Vitals: how each line of a relay is doing, for health checks that mean progress and for metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How a relay's lines are doing. Shared with whoever answers health checks.
#[derive(Debug, Default)]
pub struct Vitals {
    workers: Mutex<BTreeMap<Worker, Vital>>,
    pulse: Mutex<Option<Instant>>,
}

/// Who moves entries: the line of a route's shard, or the consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker {
    /// The route, or the group.
    pub route: String,
    /// Which shard; none, if the route is in one piece.
    pub shard: Option<u32>,
    /// Whether a broker feeds it.
    pub is_consumer: bool,
}

/// What a worker has done since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that reached their destination.
    pub delivered: u64,
    /// Tries that failed, each time.
    pub failed: u64,
    /// Tries of entries that were put aside before.
    pub retried: u64,
    /// Entries put aside: to be retried, or behind one that is.
    pub parked: u64,
    /// Entries given up.
    pub dead: u64,
}

/// What metrics show of a worker.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Who.
    pub worker: Worker,
    /// Whether this process works it now: it holds the lease, or is a member of the group.
    pub is_working: bool,
    /// Whether the destination, or the broker that feeds it, cannot be reached.
    pub is_down: bool,
    /// What it has done.
    pub counts: Counts,
}

#[derive(Clone, Debug, Default)]
struct Vital {
    is_working: bool,
    /// Whether health checks show it: it works, or says why not.
    is_shown: bool,
    /// Since when entries wait without any being settled.
    behind_since: Option<Instant>,
    /// Why the destination cannot be reached.
    down: Option<String>,
    counts: Counts,
}

/// A line as a health check shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Route and shard.
    pub name: String,
    /// For how long entries have waited without progress.
    pub behind_s: Option<f64>,
    /// Why the destination cannot be reached.
    pub down: Option<String>,
    /// Entries delivered since the start of the process.
    pub delivered: u64,
}

impl Vitals {
    /// Every line that this process works now.
    pub fn lines(&self) -> Vec<Line> {
        let workers = self.workers();
        let shown = workers.iter().filter(|(_, vital)| vital.is_shown);
        shown
            .map(|(worker, vital)| Line {
                name: worker.to_string(),
                behind_s: vital.behind_since.map(|since| since.elapsed().as_secs_f64()),
                down: vital.down.clone(),
                delivered: vital.counts.delivered,
            })
            .collect()
    }

    /// Everybody, also those that only stand by.
    pub fn readings(&self) -> Vec<Reading> {
        let workers = self.workers();
        workers
            .iter()
            .map(|(worker, vital)| Reading {
                worker: worker.clone(),
                is_working: vital.is_working,
                is_down: vital.down.is_some(),
                counts: vital.counts,
            })
            .collect()
    }

    /// How long ago the store last answered; none, if it never has.
    pub fn pulse_age(&self) -> Option<Duration> {
        let pulse = *self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.map(|at| at.elapsed())
    }

    /// What keeps this process from being ready: the store unreachable, or entries that wait although their destination is up.
    pub fn troubles(&self, patience: Duration) -> Vec<String> {
        let mut troubles = Vec::new();
        match self.pulse_age() {
            None => troubles.push("the store has not answered yet".to_owned()),
            Some(age) if age > patience => {
                troubles.push(format!("the store has not answered for {:.0} s", age.as_secs_f64()));
            }
            Some(_) => {}
        }
        for line in self.lines() {
            if line.down.is_none() && line.behind_s.is_some_and(|behind| behind > patience.as_secs_f64()) {
                let behind = line.behind_s.unwrap_or_default();
                troubles.push(format!(
                    "{}: entries wait for {behind:.0} s without progress",
                    line.name
                ));
            }
        }
        troubles
    }

    pub(crate) fn pulsed(&self) {
        *self.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// There is such a worker; it stands by.
    pub(crate) fn stands_by(&self, worker: &Worker) {
        self.change(worker, |vital| vital.is_working = false);
    }

    /// It works now: the lease was taken, the group joined.
    pub(crate) fn works(&self, worker: &Worker) {
        self.change(worker, |vital| vital.is_working = true);
    }

    /// Nothing waits, or something has been settled.
    pub(crate) fn moved(&self, worker: &Worker, done: Counts) {
        self.change(worker, |vital| {
            vital.is_shown = true;
            vital.behind_since = None;
            vital.down = None;
            vital.counts += done;
        });
    }

    /// Nothing has been settled, in vain or not yet.
    pub(crate) fn tried(&self, worker: &Worker, done: Counts) {
        self.change(worker, |vital| vital.counts += done);
    }

    pub(crate) fn behind(&self, worker: &Worker, down: Option<&str>) {
        self.change(worker, |vital| {
            vital.is_shown = true;
            vital.behind_since.get_or_insert_with(Instant::now);
            vital.down = down.map(str::to_owned);
        });
    }

    /// It works no longer, here. What it has done stays counted.
    pub(crate) fn left(&self, worker: &Worker) {
        self.change(worker, |vital| {
            let counts = vital.counts;
            *vital = Vital {
                counts,
                ..Vital::default()
            };
        });
    }

    fn change(&self, worker: &Worker, change: impl FnOnce(&mut Vital)) {
        let mut workers = self.workers();
        if !workers.contains_key(worker) {
            workers.insert(worker.clone(), Vital::default());
        }
        if let Some(vital) = workers.get_mut(worker) {
            change(vital);
        }
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<Worker, Vital>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.route)?;
        match (self.shard, self.is_consumer) {
            (Some(shard), _) => write!(f, "/{shard}"),
            (None, true) => f.write_str(" (consumer)"),
            (None, false) => Ok(()),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.delivered += more.delivered;
        self.failed += more.failed;
        self.retried += more.retried;
        self.parked += more.parked;
        self.dead += more.dead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outlive_a_lease() {
        let vitals = Vitals::default();
        let line = Worker {
            route: "orders".to_owned(),
            shard: Some(3),
            is_consumer: false,
        };
        let three = Counts {
            delivered: 3,
            ..Counts::default()
        };
        let reading = |vitals: &Vitals| {
            let readings = vitals.readings();
            (readings[0].is_working, readings[0].counts.delivered)
        };
        vitals.stands_by(&line);
        assert!(vitals.lines().is_empty(), "who stands by is not shown as a line");
        assert_eq!(reading(&vitals), (false, 0));
        vitals.works(&line);
        vitals.moved(&line, three);
        assert_eq!(vitals.lines()[0].name, "orders/3");
        assert_eq!(reading(&vitals), (true, 3));
        vitals.left(&line);
        assert!(vitals.lines().is_empty());
        vitals.works(&line);
        vitals.moved(&line, three);
        assert_eq!(
            reading(&vitals),
            (true, 6),
            "a counter that falls back would be taken for a restart"
        );
    }
}
