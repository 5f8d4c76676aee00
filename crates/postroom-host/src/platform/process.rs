//! A process that is put together: its parts run side by side until one of them ends or the caller stops them.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use postroom::{CancellationToken, Error, ErrorKind, Migration, Relay, Result, migration};
use postroom_monitor::Metrics;
use tokio::task::{JoinError, JoinSet};

use crate::host::Host;
use crate::module::Part;
use crate::routes::Operation;
use crate::server::{HttpListener, Server};

/// Under this name a store keeps the migrations of Postroom's own tables.
pub(crate) const OWN: &str = "postroom";

/// A process that is put together and does not run yet: the result of [`crate::Platform::build`].
#[derive(Debug)]
#[must_use = "it does nothing until it runs"]
pub struct Process {
    pub(super) host: Host,
    pub(super) relay: Relay,
    pub(super) metrics: Metrics,
    pub(super) server: Server,
    pub(super) listener: Option<HttpListener>,
    /// The parts of modules and of the caller.
    pub(super) parts: Vec<Part>,
    /// The tables of modules, by the module's name.
    pub(super) tables: Vec<(&'static str, Vec<Migration>)>,
    pub(super) drain_max: Option<Duration>,
}

/// A part that ended, and how.
type Ended = (String, Result<()>);

impl Process {
    /// The process as modules see it: its store, its health, its routes.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The page that it serves at `/metrics`, for a server of your own.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Every HTTP route of the process, with the module that has it; the process's own are those of `postroom`.
    pub fn operations(&self) -> Vec<(&'static str, Operation)> {
        self.server.operations()
    }

    /// Everything that its HTTP server serves, for a server of your own.
    pub fn router(&self) -> Router {
        self.server.clone().router()
    }

    /// Brings the tables of Postroom and of the modules up to date; answers how many migrations were applied.
    pub async fn migrate(&self) -> Result<usize> {
        let store = &self.host.store;
        let mut applied = migration::up(store.db(), OWN, store.migrations()).await?.len();
        for (module, tables) in &self.tables {
            let steps = migration::up(store.db(), module, tables).await.map_err(|error| {
                let doing = format!("bring the tables of the module {module} up to date");
                Error::caused(error.kind(), doing, error)
            })?;
            applied += steps.len();
        }
        Ok(applied)
    }

    /// Runs all parts until `stop`, then lets each finish what it has begun. A part that ends earlier, with an error, by a panic
    /// or without any reason, stops the others; its error is returned. No part is started again: the program that supervises
    /// the process does that, and finds a process that works completely or not at all.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let stop = stop.child_token();
        let drain_max = self.drain_max;
        let mut parts = self.start(&stop);
        let first = tokio::select! {
            () = stop.cancelled() => Ok(()),
            Some(ended) = parts.join_next() => too_early(ended, &stop),
        };
        stop.cancel();
        let drained = match drain_max {
            None => drain(&mut parts).await,
            Some(max) => tokio::time::timeout(max, drain(&mut parts))
                .await
                .unwrap_or_else(|_late| {
                    let says = format!(
                        "work in progress did not end within {} s and was abandoned; the next relay delivers it again",
                        max.as_secs()
                    );
                    Err(Error::new(ErrorKind::Failed, says))
                }),
        };
        first.and(drained)
    }

    fn start(self, stop: &CancellationToken) -> JoinSet<Ended> {
        let mut parts = JoinSet::new();
        parts.spawn(named("relay", self.relay.run(stop.clone())));
        parts.spawn(named("metrics", self.metrics.run(stop.clone())));
        if let Some(listener) = self.listener {
            parts.spawn(named("server", self.server.run(listener, stop.clone())));
        }
        for part in self.parts {
            let (name, work) = part.start(self.host.clone(), stop.clone());
            let failed = format!("run the part {name}");
            let work = async move {
                work.await
                    .map_err(|source| Error::caused(ErrorKind::Failed, failed, source))
            };
            parts.spawn(named(name, work));
        }
        parts
    }
}

/// Runs a part and answers with its name how it ended; a panic is an error.
async fn named(name: impl Into<String>, work: impl Future<Output = Result<()>>) -> Ended {
    let name = name.into();
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    let outcome = ended.unwrap_or_else(|_panic| {
        let says = format!("the part {name} panicked; the log or the standard error says where");
        Err(Error::new(ErrorKind::Failed, says))
    });
    (name, outcome)
}

/// The outcome of the part that ended first.
fn too_early(ended: Result<Ended, JoinError>, stop: &CancellationToken) -> Result<()> {
    match flatten(ended)? {
        _ if stop.is_cancelled() => Ok(()),
        part => Err(Error::new(
            ErrorKind::Failed,
            format!("the part {part} ended although nothing stopped it"),
        )),
    }
}

/// Waits for the end of all parts; answers the first error.
async fn drain(parts: &mut JoinSet<Ended>) -> Result<()> {
    let mut outcome = Ok(());
    while let Some(ended) = parts.join_next().await {
        outcome = outcome.and(flatten(ended).map(drop));
    }
    outcome
}

/// The name of a part that ended well.
fn flatten(ended: Result<Ended, JoinError>) -> Result<String> {
    match ended {
        Ok((name, outcome)) => outcome.map(|()| name),
        Err(aborted) => Err(Error::caused(ErrorKind::Failed, "run a part of the process", aborted)),
    }
}
