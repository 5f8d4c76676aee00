//! `postroom verify`: proves on your own database that nothing is lost, invented, doubled or disordered. The runs and their
//! checker are in `postroom-proof`; here are the flags, the store and the broker, and the relay as a process of its own.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use postroom::{Error, ErrorKind, Inspect, migration};
use postroom_address::{BrokerAddress, PLATFORM, StoreKind, StoreUrl};
use postroom_bench::TrialBroker;
use postroom_proof::failures::Failures;
use postroom_proof::process::Process;
use postroom_proof::trial::Outcome;
use postroom_proof::verify::{Reader, Run};
use postroom_proof::{Report, Trial, Workload, occupant};
use postroom_terminal::output::{print, print_json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::command::trial::{Ground, migrate, progress};
use crate::config::Config;
use crate::signal::Signals;

/// Keys of a run.
const KEYS: u32 = 64;
/// Keys of a run with failures: each failure holds up its own.
const KEYS_FAILING: u32 = 512;
/// The log of the relay processes of a run with failures.
const LOG: &str = "relays.log";

/// Prove on a database that nothing is lost, invented, doubled or disordered
///
/// Without --store on an SQLite file of its own. In a store that is named it makes tables verify_* and routes verify-*, and
/// removes them in the end; its events postroom.verify.* stay until retention takes them. It refuses a store where other events
/// wait or another relay works. A topic that it makes on a broker is removed too.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// How long the writers write
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many write at once
    #[arg(long, default_value_t = 16)]
    writers: u32,
    /// Let handlers and destinations fail, kill and pause two relay processes, and let an operator retry, discard and replay
    #[arg(long, conflicts_with = "reader")]
    failures: bool,
    /// Which reader to try; those that are known to be broken must be caught
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
    /// Even if others are at work in the store
    #[arg(long)]
    force: bool,
    /// Work as the relay of this run
    #[arg(long, hide = true, value_name = "PREFIX")]
    relay_of: Option<String>,
    /// Where the relay keeps its journal; without --failures it has no inbox then
    #[arg(long, hide = true, value_name = "FOLDER", requires = "relay_of")]
    journal: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ReaderName {
    /// The store's own
    Own,
    /// `id > cursor`: loses what commits late; right on SQLite, where one writes at a time
    NaiveId,
    /// Below `pg_snapshot_xmin`: disorders keys; PostgreSQL only
    Xmin,
}

impl ReaderName {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Refuses a reader that this database does not have.
    fn check(self, kind: StoreKind) -> Result<()> {
        match (self, kind) {
            (Self::Xmin, StoreKind::Sqlite | StoreKind::Mysql) => bail!(
                "the reader xmin asks for pg_snapshot_xmin, which {kind} does not have; name a PostgreSQL --store, or try \
                 --reader naive-id"
            ),
            _ => Ok(()),
        }
    }

    fn reader(self) -> Reader {
        match self {
            Self::Own => Reader::Own,
            Self::NaiveId => Reader::NaiveId,
            Self::Xmin => Reader::Xmin,
        }
    }
}

impl Verify {
    /// Verifies the store that was named, and no other.
    pub(crate) async fn run(self, config: &Config, named: Option<&StoreUrl>) -> Result<()> {
        if let Some(prefix) = &self.relay_of {
            let trial = self.plan(prefix, self.journal.as_deref())?;
            return work_as_relay(&trial, config.store.url.open().await?).await;
        }
        let ground = Ground::new(named)?;
        self.reader.check(ground.url.kind())?;
        let folder = self.failures.then(tempfile::tempdir).transpose();
        let folder = folder.context("make a folder for the journals of the relays")?;
        let prefix = format!("v{}-", uuid::Uuid::now_v7().simple());
        let trial = self.plan(&prefix, folder.as_ref().map(TempDir::path))?;
        let store = self.open(&ground).await?;
        self.reach(&trial).await?;
        migrate(&store).await?;
        trial.prepare(&*store).await.context("prepare the run")?;
        let outcome = Box::pin(self.verify(&ground.url, &trial, &*store)).await;
        progress("");
        trial.remove(&*store).await.context("clean up")?;
        self.remove_topic(&trial).await;
        let outcome = outcome?;
        explain(&outcome, folder);
        self.conclude(&self.report(&ground.url, &trial, &outcome))
    }

    /// The run with this prefix. Its relays keep their journals in `folder`.
    fn plan(&self, prefix: &str, folder: Option<&Path>) -> Result<Trial> {
        let through = self.through.as_ref().map(TrialBroker::open).transpose()?;
        let through = through.map(|broker| broker.adapter());
        let workload = |keys| Workload {
            prefix: prefix.to_owned(),
            writers: self.writers,
            keys,
            seed: self.seed,
        };
        Ok(match folder {
            Some(folder) if self.failures => Trial::Failing(Failures {
                workload: workload(KEYS_FAILING),
                through,
                folder: folder.to_owned(),
            }),
            _ => Trial::Killed(Run {
                workload: workload(KEYS),
                reader: self.reader.reader(),
                through,
                natural: folder.map(Path::to_owned),
            }),
        })
    }

    /// Opens the store of the run; refuses one with tables of another version, and one where others are at work.
    async fn open(&self, ground: &Ground) -> Result<Arc<dyn Inspect>> {
        let store = ground.url.open().await?;
        let pending = migration::pending(store.db(), PLATFORM, store.migrations()).await?;
        let has_tables = pending.len() < store.migrations().len();
        if has_tables && !pending.is_empty() {
            bail!(
                "{} has tables of another version; run `postroom migrate` first",
                ground.url
            );
        }
        if has_tables && !self.force {
            occupant::refuse(&*store, &ground.url.to_string()).await?;
        }
        Ok(store)
    }

    /// Creates the topic, and makes sure that the broker answers: a run without its broker proves nothing.
    async fn reach(&self, trial: &Trial) -> Result<()> {
        let (Some(address), Some(broker)) = (&self.through, trial.through()) else {
            return Ok(());
        };
        let (topic, groups) = (trial.topic(), trial.groups());
        let group = groups.first().map_or("", String::as_str);
        let says = || format!("the broker {address} could not be reached, so nothing is proved");
        TrialBroker::open(address)?
            .create_topic(&topic)
            .await
            .with_context(says)?;
        match broker.waiting(group, &[topic]).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(says),
            _ => Ok(()),
        }
    }

    /// Removes the run's topics and groups from the broker, and names those that it cannot remove.
    async fn remove_topic(&self, trial: &Trial) {
        let Some(address) = &self.through else { return };
        let topic = trial.topic();
        let removing = async { TrialBroker::open(address)?.remove_topic(&topic, &trial.groups()).await };
        if let Err(error) = removing.await {
            tracing::warn!("{topic} is left on {address}; remove it: {error:#}");
        }
    }

    async fn verify(&self, url: &StoreUrl, trial: &Trial, store: &dyn Inspect) -> Result<Outcome> {
        let spawn = || self.spawn_relay(url, trial);
        let length = Duration::from_secs(self.seconds);
        let outcome = trial.run((store, url.address()), length, &spawn, &progress).await?;
        if !outcome.findings.is_exact() {
            self.reach(trial).await?;
        }
        Ok(outcome)
    }

    fn spawn_relay(&self, url: &StoreUrl, trial: &Trial) -> postroom::Result<Process> {
        let command = self.relay_command(url, trial);
        let mut command =
            command.map_err(|source| Error::caused(ErrorKind::Failed, "start the relay's process", source))?;
        Process::run(&mut command)
    }

    /// This program as a relay of the run.
    fn relay_command(&self, url: &StoreUrl, trial: &Trial) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["verify", "--relay-of", &trial.workload().prefix])
            .args(["--seed", &self.seed.to_string()])
            .env("POSTROOM__STORE__URL", url.address()) // not in the arguments: it may hold a password
            .stdin(Stdio::null());
        if let Some(through) = &self.through {
            command.env("POSTROOM_VERIFY_THROUGH", through.secret());
        }
        match trial {
            Trial::Killed(_) => command.args(["--reader", &self.reader.name()]),
            Trial::Failing(run) => {
                let log = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(run.folder.join(LOG))?;
                command.arg("--failures").arg("--journal").arg(&run.folder).stderr(log)
            }
        };
        Ok(command)
    }

    fn report(&self, url: &StoreUrl, trial: &Trial, outcome: &Outcome) -> Report {
        Report {
            store: url.to_string(),
            through: self.through.as_ref().map(ToString::to_string),
            reader: self.reader.name(),
            is_right: trial.is_right_on(url.kind().backend()),
            seconds: self.seconds,
            writers: self.writers,
            commits: outcome.tally.commits,
            rollbacks: outcome.tally.rollbacks,
            savepoint_rollbacks: outcome.tally.savepoint_rollbacks,
            relay_kills: outcome.relay_kills,
            findings: outcome.findings,
            failures: outcome.failures,
        }
    }

    fn conclude(&self, report: &Report) -> Result<()> {
        match self.json {
            true => print_json(report)?,
            false => print(report.page())?,
        }
        match report.complaint() {
            Some(complaint) => bail!(complaint),
            None => Ok(()),
        }
    }
}

async fn work_as_relay(trial: &Trial, store: Arc<dyn Inspect>) -> Result<()> {
    let stop = CancellationToken::new();
    let relay = trial.relay(store)?;
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

/// Explains faults, if there are any, and keeps the log of the relays then.
fn explain(outcome: &Outcome, folder: Option<TempDir>) {
    if outcome.findings.is_exact() {
        return;
    }
    for line in &outcome.words {
        tracing::warn!("{line}");
    }
    if let Some(folder) = folder {
        tracing::warn!("what the relays said is in {}", folder.keep().join(LOG).display());
    }
}
