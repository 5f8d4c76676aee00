//! `postroom verify`: proves on your own database that nothing is lost, invented, doubled or disordered.
//!
//! Writers do their worst for a while; the relay runs as a process of its own that is killed and started again; then the
//! history checker compares what was committed with what had an effect.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use postroom::{Inspect, migration};
use postroom_testkit::Findings;
use postroom_testkit::process::Process;
use postroom_testkit::verify::{Reader, Run};
use postroom_testkit::workload::Workload;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::broker::BrokerAddress;
use crate::config::Config;
use crate::output::{print, print_json};
use crate::signal::Signals;
use crate::store::PLATFORM;

/// The relay is killed this often.
const KILL_EVERY: Duration = Duration::from_secs(3);

/// Prove on this database that nothing is lost, invented, doubled or disordered
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// How long the writers write
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many write at once
    #[arg(long, default_value_t = 16)]
    writers: u32,
    /// Which reader to try; all but `own` are known to be broken
    #[arg(long, value_enum, default_value_t = ReaderName::Own)]
    reader: ReaderName,
    /// Let a broker feed the subscriber: its address, as in the configuration
    #[arg(long, value_name = "URL", env = "POSTROOM_VERIFY_THROUGH", hide_env = true)]
    through: Option<BrokerAddress>,
    /// Draw other transactions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Work as the relay of this run
    #[arg(long, hide = true, value_name = "PREFIX")]
    relay_of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ReaderName {
    /// The store's own
    Own,
    /// `id > cursor`
    NaiveId,
    /// Below `pg_snapshot_xmin` (PostgreSQL)
    Xmin,
}

impl ReaderName {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// What was done and found.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    through: Option<String>,
    reader: String,
    seconds: u64,
    writers: u32,
    commits: u64,
    rollbacks: u64,
    savepoint_rollbacks: u64,
    relay_kills: u32,
    #[serde(flatten)]
    findings: Findings,
}

impl Verify {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open().await?;
        if let Some(prefix) = &self.relay_of {
            return self.work_as_relay(prefix, store).await;
        }
        migration::up(store.db(), PLATFORM, store.migrations())
            .await
            .context("make the tables")?;
        let prefix = format!("v{}-", uuid::Uuid::now_v7().simple());
        let run = self.plan(&prefix)?;
        if let Some(through) = &self.through {
            through.create_topic(&run.topic()).await?;
        }
        run.prepare(&*store).await.context("prepare the run")?;
        let report = self.verify(config, &run, &store).await;
        progress("");
        run.remove(&*store).await.context("clean up")?;
        let report = report?;
        match self.json {
            true => print_json(&report)?,
            false => print(report.page())?,
        }
        match (self.reader, report.findings.is_exact()) {
            (ReaderName::Own, false) => bail!("the contract was broken: keep this database and report it"),
            (ReaderName::NaiveId | ReaderName::Xmin, true) => {
                bail!("the broken reader was not caught this time; run it longer or with more writers")
            }
            _ => Ok(()),
        }
    }

    fn plan(&self, prefix: &str) -> Result<Run> {
        let through = self.through.as_ref().map(BrokerAddress::open).transpose()?;
        Ok(Run {
            through,
            workload: Workload {
                prefix: prefix.to_owned(),
                writers: self.writers,
                keys: 64,
                seed: self.seed,
            },
            reader: match self.reader {
                ReaderName::Own => Reader::Own,
                ReaderName::NaiveId => Reader::NaiveId,
                ReaderName::Xmin => Reader::Xmin,
            },
        })
    }

    async fn work_as_relay(&self, prefix: &str, store: Arc<dyn Inspect>) -> Result<()> {
        let stop = CancellationToken::new();
        let relay = self.plan(prefix)?.relay(store);
        let mut signals = Signals::listen()?;
        let end = stop.clone();
        tokio::select! {
            ended = relay.run(stop) => ended.context("run the relay"),
            () = signals.next() => {
                end.cancel();
                Ok(())
            }
        }
    }

    async fn verify(&self, config: &Config, run: &Run, store: &Arc<dyn Inspect>) -> Result<Report> {
        let db = run
            .writers(config.store.url.address(), &**store)
            .await
            .context("connect the writers")?;
        let stop = CancellationToken::new();
        let mut relay = self.spawn_relay(config, run)?;
        run.until_registered(&**store).await.context("wait for the relay")?;
        let writing = run.workload.run(&db, &stop);
        let killing = async {
            let until = Instant::now() + Duration::from_secs(self.seconds);
            let mut kills = 0;
            while Instant::now() < until {
                let left = until - Instant::now();
                progress(&format!("writing and killing, {} s to go", left.as_secs()));
                sleep(KILL_EVERY.min(left)).await;
                relay.kill9().context("kill the relay")?;
                relay = self.spawn_relay(config, run)?;
                kills += 1;
            }
            stop.cancel();
            anyhow::Ok(kills)
        };
        let (tally, kills) = tokio::join!(writing, killing);
        let (tally, relay_kills) = (tally.context("write")?, kills?);
        progress("waiting for the last effects");
        let (findings, history, truth) = run.finish(&**store, &CancellationToken::new()).await?;
        relay.kill9().context("end the relay")?;
        for line in history.explain(&truth, if findings.is_exact() { 0 } else { 5 }) {
            tracing::warn!("{line}");
        }
        Ok(Report {
            store: config.store.url.to_string(),
            through: self.through.as_ref().map(ToString::to_string),
            reader: self.reader.name(),
            seconds: self.seconds,
            writers: self.writers,
            commits: tally.commits,
            rollbacks: tally.rollbacks,
            savepoint_rollbacks: tally.savepoint_rollbacks,
            relay_kills,
            findings,
        })
    }

    fn spawn_relay(&self, config: &Config, run: &Run) -> Result<Process> {
        let program = std::env::current_exe().context("find the running program")?;
        let mut command = Command::new(program);
        command
            .args([
                "verify",
                "--reader",
                &self.reader.name(),
                "--relay-of",
                &run.workload.prefix,
            ])
            .env("POSTROOM__STORE__URL", config.store.url.address()) // not in the arguments: it may hold a password
            .stdin(Stdio::null());
        if let Some(through) = &self.through {
            command.env("POSTROOM_VERIFY_THROUGH", through.secret());
        }
        Process::run(&mut command).context("start the relay's process")
    }
}

/// Tells a person who watches how far it is.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        write!(std::io::stderr(), "\r\x1b[K{text}").unwrap_or_default(); // nobody is left to be told when this fails
    }
}

impl Report {
    fn page(&self) -> String {
        let findings = self.findings;
        let verdict = if findings.is_exact() { "exact" } else { "BROKEN" };
        format!(
            "{verdict}: {} on {}{}\n\
             {} writers for {} s: {} commits, {} rollbacks, {} savepoints rolled back; the relay was killed {} times\n\
             {} events: {} lost, {} phantom, {} double effects, {} order violations",
            self.reader,
            self.store,
            self.through
                .as_ref()
                .map(|broker| format!(" through {broker}"))
                .unwrap_or_default(),
            self.writers,
            self.seconds,
            self.commits,
            self.rollbacks,
            self.savepoint_rollbacks,
            self.relay_kills,
            findings.events,
            findings.lost,
            findings.phantom,
            findings.double_effects,
            findings.order_violations
        )
    }
}
