//! `postroom bench`: measures on your own machine and database what the documentation promises.
//!
//! Every number stands beside what limits it, taken in the same run. A bench writes tables `bench_*`, events
//! `postroom.bench.*` and routes `bench-*`, on a broker a topic `postroom-bench-*`, and removes them in the end.

mod backlog;
mod cpu;
mod emit;
mod figure;
mod idle;
mod limit;
mod native;
mod paid;
pub(super) mod plain;
mod publish;
mod receiver;
mod relay;
mod running;
mod site;
mod stage;
mod tally;
mod writers;

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use tokio::task::JoinSet;

use crate::broker::BrokerAddress;
use crate::command::trial::progress;
use crate::signal::Signals;
use crate::store::StoreUrl;
use figure::{Outcome, Setting};
use site::Site;

/// Measure speed, latency and cost on this machine
///
/// Without --store in an SQLite file of its own. In a store that is named it makes tables bench_*, events postroom.bench.*
/// and routes bench-*, and removes them in the end; it refuses one where other events wait or another relay works.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Even if others are at work in the store
    #[arg(long, global = true)]
    force: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Relay(relay::RelayBench),
    Emit(emit::EmitBench),
    Backlog(backlog::BacklogBench),
    Idle(idle::IdleBench),
}

impl Bench {
    /// Measures in the store that was named, and in no other.
    pub(crate) async fn run(self, store: Option<&StoreUrl>) -> Result<()> {
        let mut signals = Signals::listen()?;
        let mut site = Site::open(store, self.force).await?;
        if let Some((broker, is_transactional)) = self.what.broker() {
            site = site.with_stage(broker, is_transactional).await?;
        }
        let site = Arc::new(site);
        let on = Setting::of(&site, &self.what.flags()).await?;
        let measured = signals.unless(self.what.measure(Arc::clone(&site))).await;
        progress("");
        site.close().await?;
        match measured {
            Some(outcome) => outcome?.show(&on, self.json),
            None => bail!("stopped; what the bench had made is removed"),
        }
    }
}

impl What {
    /// The flags that repeat this run.
    fn flags(&self) -> String {
        match self {
            Self::Relay(bench) => bench.flags(),
            Self::Emit(bench) => bench.flags(),
            Self::Backlog(bench) => bench.flags(),
            Self::Idle(bench) => bench.flags(),
        }
    }

    /// The broker it publishes to, if any, and whether in transactions.
    fn broker(&self) -> Option<(&BrokerAddress, bool)> {
        match self {
            Self::Relay(bench) => bench.broker(),
            Self::Emit(_) | Self::Backlog(_) | Self::Idle(_) => None,
        }
    }

    /// Measures in a task: what runs outside of one is woken through another thread, for every answer of the database.
    async fn measure(self, site: Arc<Site>) -> Result<Outcome> {
        let mut task = JoinSet::new();
        task.spawn(async move { self.run(&site).await });
        task.join_next()
            .await
            .context("there is one task")?
            .context("run the bench")?
    }

    async fn run(&self, site: &Site) -> Result<Outcome> {
        match self {
            Self::Relay(bench) => bench.outcome(site).await,
            Self::Emit(bench) => bench.run(site).await?.outcome(),
            Self::Backlog(bench) => bench.run(site).await?.outcome(),
            Self::Idle(bench) => bench.run(site).await?.outcome(),
        }
    }
}
