//! Health: how each worker of a relay is doing, for health checks that mean progress and for metrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;

use crate::error::{Error, NextStep};
use crate::state::cursor::{Lease, Shard};
use crate::store::fault::Fault;

/// How long the store may leave a relay without an answer.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// A free lease that could not be taken is tried again within seconds, unless another process has taken it.
const RETAKEN_MAX: Duration = Duration::from_secs(10);
/// How long a worker may fail because of the store. Its first failure may itself have taken ten seconds.
const FAILING_MAX: Duration = Duration::from_secs(5);
/// How long entries may wait without progress for another reason: three times the time in which another relay takes over.
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// How a relay's workers are doing. Shared with whoever answers health checks.
#[derive(Debug, Default)]
pub struct Health {
    workers: Mutex<BTreeMap<Worker, WorkerState>>,
    store: Mutex<Store>,
}

/// How the store answers.
#[derive(Debug, Default)]
struct Store {
    answered_at: Option<Instant>,
    /// Why it does not answer now.
    pulse: Option<Failure>,
    /// Why leases cannot be renewed now.
    leases: Option<Failure>,
    /// Free leases that cannot be taken.
    takes: HashMap<Shard, Takes>,
}

/// Free leases that cannot be taken, again and again.
#[derive(Clone, Debug)]
struct Takes {
    since: Instant,
    last: Instant,
    failure: Failure,
}

/// An error of the store that lasts.
#[derive(Clone, Debug)]
struct Failure {
    fault: Fault,
    says: String,
}

impl Store {
    /// Why free leases have not been taken for too long: no worker works, and none can lapse.
    fn lasting_takes(&self) -> Option<Failure> {
        let is_lasting = |takes: &&Takes| takes.last.elapsed() < RETAKEN_MAX && takes.since.elapsed() > SILENT_MAX;
        self.takes.values().find(is_lasting).map(|takes| takes.failure.clone())
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        Self {
            fault: Fault::of(error),
            says: error.report(),
        }
    }
}

/// A reason why a process is not ready. Causes come before their consequences.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The store fails.
    Store {
        /// Why.
        fault: Fault,
        /// In the store's own words.
        says: String,
    },
    /// The store does not answer.
    Silent {
        /// Since when; none, if it never has.
        since: Option<Duration>,
    },
    /// Leases have run out here that no other process has taken.
    Lapsed {
        /// The workers that had them.
        workers: Vec<Worker>,
        /// How long ago the first ran out.
        since: Duration,
    },
    /// Entries wait without progress.
    Behind {
        /// The worker that has them to deliver.
        worker: Worker,
        /// For how long.
        since: Duration,
    },
}

/// Names a part that moves entries: the worker of a route's shard, or the consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker {
    /// The route, or the group.
    pub route: String,
    /// Which shard; none, if the route is in one piece.
    pub shard: Option<u32>,
    /// Whether a broker feeds it.
    pub is_consumer: bool,
}

/// Counts of a worker since the start of the process.
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

/// The metrics of a worker.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Its name.
    pub worker: Worker,
    /// Whether this process works it now: it holds the lease, or is a member of the group.
    pub is_working: bool,
    /// Whether the destination, or the broker that feeds it, cannot be reached.
    pub is_down: bool,
    /// Its counts.
    pub counts: Counts,
}

#[derive(Clone, Debug, Default)]
struct WorkerState {
    is_working: bool,
    /// Whether health checks show it: it works, or says why not.
    is_shown: bool,
    /// Since when entries wait without any being settled.
    behind_since: Option<Instant>,
    /// Why the destination cannot be reached.
    down: Option<String>,
    /// Why the store does not let it go on.
    failure: Option<Failure>,
    /// The lease, as the lease keeper tells of it.
    lease: Option<watch::Receiver<Option<Lease>>>,
    counts: Counts,
}

impl WorkerState {
    /// For how long its lease has run out, unless it was given back or taken by another process.
    fn lapsed(&self) -> Option<Duration> {
        let lease = (*self.lease.as_ref()?.borrow())?;
        let lapsed = Instant::now().checked_duration_since(lease.deadline)?;
        (!lapsed.is_zero()).then_some(lapsed)
    }

    fn behind(&self) -> Option<Duration> {
        self.behind_since.map(|since| since.elapsed())
    }

    /// Whether entries have waited for too long, and the destination is not the reason.
    fn is_stuck(&self) -> bool {
        let patience = if self.failure.is_some() {
            FAILING_MAX
        } else {
            BEHIND_MAX
        };
        self.down.is_none() && self.behind().is_some_and(|behind| behind > patience)
    }
}

/// A worker as a health check shows it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerHealth {
    /// Route and shard.
    pub name: String,
    /// For how long entries have waited without progress.
    pub behind_s: Option<f64>,
    /// Why the destination cannot be reached.
    pub down: Option<String>,
    /// Entries delivered since the start of the process.
    pub delivered: u64,
}

impl Health {
    /// Every worker that this process works now.
    pub fn working(&self) -> Vec<WorkerHealth> {
        let workers = self.workers();
        let shown = workers.iter().filter(|(_, state)| state.is_shown);
        shown
            .map(|(worker, state)| WorkerHealth {
                name: worker.to_string(),
                behind_s: state.behind_since.map(|since| since.elapsed().as_secs_f64()),
                down: state.down.clone(),
                delivered: state.counts.delivered,
            })
            .collect()
    }

    /// All workers, also those that only stand by.
    pub fn readings(&self) -> Vec<Reading> {
        let workers = self.workers();
        workers
            .iter()
            .map(|(worker, state)| Reading {
                worker: worker.clone(),
                is_working: state.is_working,
                is_down: state.down.is_some(),
                counts: state.counts,
            })
            .collect()
    }

    /// How long ago the store last answered; none, if it never has.
    pub fn pulse_age(&self) -> Option<Duration> {
        self.store().answered_at.map(|at| at.elapsed())
    }

    /// The reasons why this process is not ready, causes first: the store fails or is silent, leases have lapsed, entries wait
    /// although their destination is up.
    pub fn troubles(&self) -> Vec<Trouble> {
        let (mut failures, mut troubles) = (Vec::new(), Vec::new());
        let since = self.pulse_age();
        if since.is_none_or(|since| since > SILENT_MAX) {
            failures.extend(self.store().pulse.clone());
            troubles.push(Trouble::Silent { since });
        }
        failures.extend(self.store().lasting_takes());
        let workers = self.workers();
        let lapsed: Vec<(Worker, Duration)> = workers
            .iter()
            .filter_map(|(worker, state)| Some((worker.clone(), state.lapsed()?)))
            .collect();
        if let Some(since) = lapsed.iter().map(|(_, since)| *since).max() {
            failures.extend(self.store().leases.clone());
            let workers = lapsed.into_iter().map(|(worker, _)| worker).collect();
            troubles.push(Trouble::Lapsed { workers, since });
        }
        for (worker, state) in workers.iter().filter(|(_, state)| state.is_shown && state.is_stuck()) {
            failures.extend(state.failure.clone());
            let (worker, since) = (worker.clone(), state.behind().unwrap_or_default());
            troubles.push(Trouble::Behind { worker, since });
        }
        causes(failures).into_iter().chain(troubles).collect()
    }

    pub(crate) fn pulsed(&self) {
        let mut store = self.store();
        store.answered_at = Some(Instant::now());
        store.pulse = None;
    }

    /// The store does not answer.
    pub(crate) fn silenced(&self, error: &Error) {
        self.store().pulse = Some(Failure::of(error));
    }

    /// Leases were renewed, or could not be.
    pub(crate) fn renewed(&self, failure: Option<&Error>) {
        self.store().leases = failure.map(Failure::of);
    }

    /// A free lease could not be taken.
    pub(crate) fn not_taken(&self, shard: &Shard, error: &Error) {
        let (now, failure) = (Instant::now(), Failure::of(error));
        let takes = &mut self.store().takes;
        let known = takes.get(shard).filter(|takes| takes.last.elapsed() < RETAKEN_MAX);
        let since = known.map_or(now, |takes| takes.since);
        let last = now;
        takes.insert(shard.clone(), Takes { since, last, failure });
    }

    /// Follows the lease of a worker.
    pub(crate) fn follow(&self, worker: &Worker, lease: watch::Receiver<Option<Lease>>) {
        self.change(worker, |state| state.lease = Some(lease));
    }

    /// The store does not let it go on.
    pub(crate) fn failed(&self, worker: &Worker, error: &Error) {
        self.behind(worker, None);
        self.change(worker, |state| state.failure = Some(Failure::of(error)));
    }

    /// There is such a worker; it stands by.
    pub(crate) fn stands_by(&self, worker: &Worker) {
        self.change(worker, |state| state.is_working = false);
    }

    /// It works now: the lease was taken, the group joined.
    pub(crate) fn works(&self, worker: &Worker) {
        self.change(worker, |state| state.is_working = true);
    }

    /// Nothing waits, or something has been settled.
    pub(crate) fn moved(&self, worker: &Worker, done: Counts) {
        self.change(worker, |state| {
            state.is_shown = true;
            state.behind_since = None;
            state.down = None;
            state.failure = None;
            state.counts += done;
        });
    }

    /// Nothing has been settled, in vain or not yet.
    pub(crate) fn tried(&self, worker: &Worker, done: Counts) {
        self.change(worker, |state| state.counts += done);
    }

    pub(crate) fn behind(&self, worker: &Worker, down: Option<&str>) {
        self.change(worker, |state| {
            state.is_shown = true;
            state.behind_since.get_or_insert_with(Instant::now);
            state.down = down.map(str::to_owned);
            state.failure = None;
        });
    }

    /// It works no longer in this process. Its counts stay.
    pub(crate) fn left(&self, worker: &Worker) {
        self.change(worker, |state| {
            *state = WorkerState {
                counts: state.counts,
                lease: state.lease.take(),
                ..WorkerState::default()
            };
        });
    }

    fn change(&self, worker: &Worker, change: impl FnOnce(&mut WorkerState)) {
        let mut workers = self.workers();
        if !workers.contains_key(worker) {
            workers.insert(worker.clone(), WorkerState::default());
        }
        if let Some(state) = workers.get_mut(worker) {
            change(state);
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<Worker, WorkerState>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each fault once, the plainest first: many workers fail for one reason.
fn causes(mut failures: Vec<Failure>) -> Vec<Trouble> {
    failures.sort_by_key(|failure| failure.fault);
    failures.dedup_by_key(|failure| failure.fault);
    let trouble = |failure: Failure| Trouble::Store {
        fault: failure.fault,
        says: failure.says,
    };
    failures.into_iter().map(trouble).collect()
}

impl Trouble {
    /// The steps that an operator can take.
    pub fn next_steps(&self) -> Vec<NextStep> {
        match self {
            Self::Store { fault, .. } => fault.next_steps(),
            Self::Silent { .. } => vec![NextStep::CheckDatabase],
            Self::Lapsed { .. } | Self::Behind { .. } => vec![NextStep::AskWhy],
        }
    }
}

/// In English, for logs and health checks.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { fault, says } => write!(f, "{}: {says}", fault.advice()),
            Self::Silent { since: None } => f.write_str("the store has not answered yet"),
            Self::Silent { since: Some(since) } => {
                write!(f, "the store has not answered for {:.0} s", since.as_secs_f64())
            }
            Self::Lapsed { workers, since } => write!(
                f,
                "leases ran out {:.0} s ago and could not be renewed: {}",
                since.as_secs_f64(),
                workers.iter().map(Worker::to_string).collect::<Vec<_>>().join(", ")
            ),
            Self::Behind { worker, since } => {
                write!(
                    f,
                    "{worker}: entries wait for {:.0} s without progress",
                    since.as_secs_f64()
                )
            }
        }
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
    use crate::error::Condition;

    #[test]
    fn counts_outlive_a_lease() {
        let health = Health::default();
        let worker = Worker {
            route: "orders".to_owned(),
            shard: Some(3),
            is_consumer: false,
        };
        let three = Counts {
            delivered: 3,
            ..Counts::default()
        };
        let reading = |health: &Health| {
            let readings = health.readings();
            (readings[0].is_working, readings[0].counts.delivered)
        };
        health.stands_by(&worker);
        assert!(health.working().is_empty(), "who stands by is not shown as a worker");
        assert_eq!(reading(&health), (false, 0));
        health.works(&worker);
        health.moved(&worker, three);
        assert_eq!(health.working()[0].name, "orders/3");
        assert_eq!(reading(&health), (true, 3));
        health.left(&worker);
        assert!(health.working().is_empty());
        health.works(&worker);
        health.moved(&worker, three);
        assert_eq!(
            reading(&health),
            (true, 6),
            "a counter that falls back would be taken for a restart"
        );
    }

    fn worker(route: &str) -> Worker {
        Worker {
            route: route.to_owned(),
            shard: None,
            is_consumer: false,
        }
    }

    #[test]
    fn a_lease_that_ran_out_is_told_and_its_cause_comes_first() {
        let health = Health::default();
        let lease = |deadline| Lease { epoch: 1, deadline };
        let (lease_keeper, held) = watch::channel(Some(lease(Instant::now() + Duration::from_secs(10))));
        health.pulsed();
        health.follow(&worker("orders"), held);
        health.works(&worker("orders"));
        assert_eq!(health.troubles(), [], "the lease is held");
        health.renewed(Some(&Error::invalid("renew").meaning(Condition::DiskFull)));
        assert_eq!(health.troubles(), [], "one renewal that fails is no trouble");
        lease_keeper.send_replace(Some(lease(Instant::now() - Duration::from_secs(3))));
        let troubles: Vec<String> = health.troubles().iter().map(Trouble::to_string).collect();
        assert!(troubles[0].starts_with("the database's disk is full"), "{troubles:?}");
        assert!(
            troubles[1].contains("orders") && troubles[1].contains("leases ran out"),
            "{troubles:?}"
        );
        health.left(&worker("orders"));
        assert_eq!(
            health.troubles().len(),
            2,
            "a worker that stopped has still lost its lease"
        );
        lease_keeper.send_replace(None);
        assert_eq!(health.troubles(), [], "another process works it");
    }

    #[test]
    fn a_lease_that_cannot_be_taken_for_long_is_told() {
        let health = Health::default();
        let shard = Shard {
            route: "r".into(),
            number: 0,
        };
        health.pulsed();
        let full = Error::invalid("take").meaning(Condition::DiskFull);
        health.not_taken(&shard, &full);
        assert_eq!(health.troubles(), [], "once is no trouble");
        if let Some(takes) = health.store().takes.get_mut(&shard) {
            takes.since = Instant::now() - 2 * SILENT_MAX;
        }
        health.not_taken(&shard, &full);
        assert!(health.troubles()[0].to_string().contains("disk is full"));
        if let Some(takes) = health.store().takes.get_mut(&shard) {
            takes.last = Instant::now() - RETAKEN_MAX;
        }
        assert_eq!(health.troubles(), [], "another process has taken it");
    }

    #[test]
    fn lines_that_fail_for_one_reason_tell_it_once() {
        let failures = [
            ("a", Condition::PoolTimedOut),
            ("b", Condition::PoolTimedOut),
            ("c", Condition::DiskFull),
        ];
        let failure = |(says, condition)| Failure::of(&Error::invalid(says).meaning(condition));
        let failures = failures.map(failure).to_vec();
        let faults: Vec<Fault> = causes(failures)
            .into_iter()
            .filter_map(|trouble| match trouble {
                Trouble::Store { fault, .. } => Some(fault),
                _ => None,
            })
            .collect();
        assert_eq!(faults, [Fault::DiskFull, Fault::PoolDry]);
    }
}
