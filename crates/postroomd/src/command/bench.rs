//! `postroom bench`: measures on your own machine and database what the documentation promises.
//!
//! Every number stands beside what limits it, taken in the same run. A bench writes tables `bench_*`, events
//! `postroom.bench.*` and routes `bench-*`, and removes them in the end.

mod backlog;
mod cpu;
mod emit;
mod figure;
mod idle;
mod limit;
mod native;
mod paid;
mod receiver;
mod relay;
mod site;
mod steady;
mod tally;

use std::io::{IsTerminal as _, Write as _};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

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
        let site = Site::open(store, self.force).await?;
        let measured = signals.unless(self.measure(&site)).await;
        progress("");
        site.close().await?;
        measured.unwrap_or_else(|| bail!("stopped; what the bench had made is removed"))
    }

    async fn measure(&self, site: &Site) -> Result<()> {
        let on = Setting::of(site, &self.what.flags()).await?;
        let outcome = self.what.run(site).await?;
        progress("");
        outcome.show(&on, self.json)
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

    async fn run(&self, site: &Site) -> Result<Outcome> {
        match self {
            Self::Relay(bench) => bench.run(site).await?.outcome(),
            Self::Emit(bench) => bench.run(site).await?.outcome(),
            Self::Backlog(bench) => bench.run(site).await?.outcome(),
            Self::Idle(bench) => bench.run(site).await?.outcome(),
        }
    }
}

/// Tells a person who watches how far it is; an empty text clears the line.
fn progress(text: &str) {
    let mut screen = std::io::stderr();
    if screen.is_terminal() {
        // A line that cannot be shown is no reason to stop.
        write!(screen, "\r\x1b[K{text}")
            .and_then(|()| screen.flush())
            .unwrap_or_default();
    }
}
