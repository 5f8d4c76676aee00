//! One interface to both runs, for a program that runs either.

use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Inspect, Relay, Result};
use sea_orm::DbBackend;

use crate::failures::{Counts, Failures, Journal};
use crate::history::Findings;
use crate::process::Process;
use crate::verify::{self, Run};
use crate::workload::{Tally, Workload};

/// A run on a database.
#[derive(Clone, Debug)]
pub enum Trial {
    /// Writers overlap, and the relay is killed.
    Killed(Run),
    /// Handlers and destinations fail too, and an operator acts.
    Failing(Failures),
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Faults that the checker counted, in all groups together.
    pub findings: Findings,
    /// The same faults in words, some of them.
    pub words: Vec<String>,
    /// Transactions of the writers.
    pub tally: Tally,
    /// Number of times that a relay process was killed.
    pub relay_kills: u32,
    /// Number of times that each failure happened, in a run with failures.
    pub failures: Option<Counts>,
}

impl Trial {
    /// The broker that feeds the subscribers, if any.
    pub fn through(&self) -> Option<&Arc<dyn Broker>> {
        match self {
            Self::Killed(run) => run.through.as_ref(),
            Self::Failing(run) => run.through.as_ref(),
        }
    }

    /// The topic of a run through a broker; the program creates it before the run and removes it afterwards.
    pub fn topic(&self) -> String {
        match self {
            Self::Killed(run) => run.topic(),
            Self::Failing(run) => run.topic(),
        }
    }

    /// The groups that read the topic.
    pub fn groups(&self) -> Vec<String> {
        match self {
            Self::Killed(run) => vec![run.group()],
            Self::Failing(run) => run.fed_groups(),
        }
    }

    /// The writers and their events.
    pub fn workload(&self) -> &Workload {
        match self {
            Self::Killed(run) => &run.workload,
            Self::Failing(run) => &run.workload,
        }
    }

    /// Whether the reader of this run must stay exact on a database.
    pub fn is_right_on(&self, backend: DbBackend) -> bool {
        match self {
            Self::Killed(run) => run.reader.is_right_on(backend),
            Self::Failing(_) => true,
        }
    }

    /// Creates the tables.
    pub async fn prepare(&self, store: &dyn Inspect) -> Result<()> {
        match self {
            Self::Killed(run) => run.prepare(store).await,
            Self::Failing(run) => run.prepare(store).await,
        }
    }

    /// The relay of one process of the run.
    pub fn relay(&self, store: Arc<dyn Inspect>) -> Result<Relay> {
        match self {
            Self::Killed(run) => run.relay(store),
            Self::Failing(run) => Ok(run.relay(&store, Journal::open(&run.folder)?)),
        }
    }

    /// Runs for this long with relay processes that `spawn` starts, waits for the last effects, and checks. The writers connect to
    /// `address`. `tell` receives the progress.
    pub async fn run(
        &self,
        (store, address): (&dyn Inspect, &str),
        length: Duration,
        spawn: &(dyn Fn() -> Result<Process> + Sync),
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<Outcome> {
        let count = self.workload().writers;
        match self {
            Self::Killed(run) => {
                let writers = verify::writers(address, store, count).await?;
                Box::pin(run.run((store, &writers), length, spawn, tell)).await
            }
            Self::Failing(run) => {
                // One more holds the lock on which handlers hang.
                let writers = verify::writers(address, store, count.saturating_add(1)).await?;
                Box::pin(run.run((store, &writers), length, spawn, tell)).await
            }
        }
    }

    /// Forgets the routes and drops the tables of all runs. The relays must be gone.
    pub async fn remove(&self, store: &dyn Inspect) -> Result<()> {
        match self {
            Self::Killed(run) => run.remove(store).await,
            Self::Failing(run) => run.remove(store).await,
        }
    }
}
