#![doc = include_str!("../README.md")]

mod access;
mod backlog;
mod collect;
mod cpu;
mod emit;
mod figure;
mod guest;
mod idle;
mod ingest;
mod limit;
mod native;
mod paid;
mod plain;
mod publish;
mod receiver;
mod relay;
mod running;
mod site;
mod stage;
mod stream;
mod tally;
mod trial_broker;
mod wire;
mod writers;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

pub use crate::access::AccessBench;
pub use crate::backlog::BacklogBench;
pub use crate::collect::CollectBench;
pub use crate::emit::EmitBench;
pub use crate::figure::{Figure, Outcome, Setting};
pub use crate::idle::IdleBench;
pub use crate::ingest::IngestBench;
pub use crate::native::Native;
pub use crate::receiver::{Receiver, Target};
pub use crate::relay::RelayBench;
use crate::site::Site;
pub use crate::site::{Place, Tell};
pub use crate::stream::{Protocol, StreamBench, run_stream_client};
pub use crate::trial_broker::TrialBroker;

/// The secret of hashes in rows that a bench makes and removes.
const HASH_SECRET: &str = "for rows that last as long as a bench";

/// A measurement.
#[derive(Debug)]
pub enum Bench {
    /// Speed and latency of a relay.
    Relay(RelayBench),
    /// Cost of an emit.
    Emit(EmitBench),
    /// Cost of delivered rows.
    Backlog(BacklogBench),
    /// Cost of a relay without work.
    Idle(IdleBench),
    /// Cost of the check of a token.
    Access(AccessBench),
    /// Speed of client ingest.
    Ingest(IngestBench),
    /// Cost of activity collection that is broken.
    Collect(CollectBench),
    /// Memory and speed of streams to clients.
    Stream(StreamBench),
}

impl Bench {
    /// Measures in this place, and removes everything that the bench has made there. Returns `None` if `stop` ends first.
    pub async fn run(self, place: Place, stop: impl Future<Output = ()>) -> Result<Option<Outcome>> {
        // An address that cannot be used is refused before anything is made in the store.
        let stage = match &self {
            Self::Relay(bench) => bench.broker()?.map(|broker| (broker, bench.is_transactional)),
            _ => None,
        };
        let mut site = Site::open(place).await?;
        if let Some((broker, is_transactional)) = &stage {
            site = site.with_stage(broker, *is_transactional).await?;
        }
        site = match &self {
            Self::Ingest(_) => site.with_guests(&IngestBench::modules()).await?,
            Self::Collect(_) => site.with_guests(&CollectBench::modules()).await?,
            _ => site,
        };
        let site = Arc::new(site);
        let measured = tokio::select! {
            () = stop => None,
            outcome = self.measure(Arc::clone(&site)) => Some(outcome),
        };
        site.progress("");
        site.close().await?;
        measured.transpose()
    }

    /// Measures in a task: what runs outside of one is woken through another thread, for every answer of the database.
    async fn measure(self, site: Arc<Site>) -> Result<Outcome> {
        let mut task = JoinSet::new();
        task.spawn(async move { self.outcome(&site).await });
        task.join_next()
            .await
            .context("there is one task")?
            .context("run the bench")?
    }

    async fn outcome(&self, site: &Site) -> Result<Outcome> {
        match self {
            Self::Relay(bench) => bench.outcome(site).await,
            Self::Emit(bench) => bench.run(site).await?.outcome(),
            Self::Backlog(bench) => bench.run(site).await?.outcome(),
            Self::Idle(bench) => bench.run(site).await?.outcome(),
            Self::Access(bench) => bench.run(site).await?.outcome(),
            Self::Ingest(bench) => bench.run(site).await?.outcome(),
            Self::Collect(bench) => bench.run(site).await?.outcome(),
            Self::Stream(bench) => bench.run(site).await?.outcome(),
        }
    }
}
