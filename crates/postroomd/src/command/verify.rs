//! `postroom verify`: proves on your own database that nothing is lost, invented, doubled or disordered.
//!
//! Writers do their worst for a while; the relay runs as a process of its own that is killed and started again; then the
//! history checker compares what was committed with what had an effect. With `--failures`, handlers and destinations fail too,
//! and an operator is at work ([`failing`]).

mod failing;
mod report;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use postroom::{Broker, ErrorKind, Inspect, migration};
use postroom_testkit::failures::Journal;
use postroom_testkit::process::Process;
use postroom_testkit::verify::{self, Reader, Run};
use postroom_testkit::workload::Workload;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::broker::BrokerAddress;
use crate::command::bench::plain::Plain;
use crate::command::trial::{Ground, progress};
use crate::config::Config;
use crate::output::{print, print_json};
use crate::signal::Signals;
use crate::store::{Kind, PLATFORM, StoreUrl};
use report::Report;

/// The relay is killed this often.
const KILL_EVERY: Duration = Duration::from_secs(3);

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
    fn check(self, kind: Kind) -> Result<()> {
        match (self, kind) {
            (Self::Xmin, Kind::Sqlite | Kind::Mysql) => bail!(
                "the reader xmin asks for pg_snapshot_xmin, which {kind} does not have; name a PostgreSQL --store, or try \
                 --reader naive-id"
            ),
            _ => Ok(()),
        }
    }

    /// Whether it must stay exact on this database.
    fn is_right_on(self, kind: Kind) -> bool {
        match self {
            Self::Own => true,
            Self::NaiveId => kind == Kind::Sqlite,
            Self::Xmin => false,
        }
    }
}

impl Verify {
    /// Verifies the store that was named, and no other.
    pub(crate) async fn run(self, config: &Config, named: Option<&StoreUrl>) -> Result<()> {
        if let Some(prefix) = &self.relay_of {
            return self.work_as_relay(prefix, config.store.url.open().await?).await;
        }
        if self.failures {
            return Box::pin(self.run_failing(named)).await;
        }
        let ground = Ground::new(named)?;
        self.reader.check(ground.url.kind())?;
        let run = self.plan(&format!("v{}-", uuid::Uuid::now_v7().simple()))?;
        let store = self.open(&ground).await?;
        self.reach(&run.topic(), &run.group(), run.through.as_ref()).await?;
        migrate(&store).await?;
        run.prepare(&*store).await.context("prepare the run")?;
        let report = self.verify(&ground.url, &run, &store).await;
        progress("");
        run.remove(&*store).await.context("clean up")?;
        self.remove_topic(&run.topic(), &[run.group()]).await;
        let report = report?;
        match self.json {
            true => print_json(&report)?,
            false => print(report.page())?,
        }
        match (self.reader.is_right_on(ground.url.kind()), report.findings.is_exact()) {
            (true, false) => bail!("the contract was broken: report it, with what is printed here"),
            (false, true) => bail!("the broken reader was not caught this time; run it longer or with more writers"),
            _ => Ok(()),
        }
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
            ground.refuse_others(&*store).await?;
        }
        Ok(store)
    }

    /// Makes the topic, and sure that the broker is there: what one that is away does not deliver says nothing.
    async fn reach(&self, topic: &str, group: &str, through: Option<&Arc<dyn Broker>>) -> Result<()> {
        let (Some(address), Some(broker)) = (&self.through, through) else {
            return Ok(());
        };
        let says = || format!("the broker {address} could not be reached, so nothing is proved");
        address.create_topic(topic).await.with_context(says)?;
        match broker.waiting(group, &[topic.to_owned()]).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(says),
            _ => Ok(()),
        }
    }

    /// Removes from the broker what the run has made there. What cannot be removed is named.
    async fn remove_topic(&self, topic: &str, groups: &[String]) {
        let Some(address) = &self.through else { return };
        let removing = async {
            address.forget_groups(groups, topic).await?;
            for topic in [topic, &format!("{topic}.DLT")] {
                Plain::connect(address, topic).await?.remove().await?;
            }
            anyhow::Ok(())
        };
        if let Err(error) = removing.await {
            tracing::warn!("{topic} is left on {address}; remove it: {error:#}");
        }
    }

    fn plan(&self, prefix: &str) -> Result<Run> {
        let through = self.through.as_ref().map(BrokerAddress::open).transpose()?;
        Ok(Run {
            through,
            natural: self.journal.clone(),
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
        let relay = match &self.journal {
            Some(folder) if self.failures => self.plan_failing(prefix, folder)?.relay(&store, Journal::open(folder)?),
            _ => self.plan(prefix)?.relay(store)?,
        };
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

    async fn verify(&self, url: &StoreUrl, run: &Run, store: &Arc<dyn Inspect>) -> Result<Report> {
        let db = verify::writers(url.address(), &**store, self.writers)
            .await
            .context("connect the writers")?;
        let stop = CancellationToken::new();
        let mut relay = self.spawn_relay(url, run)?;
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
                relay = self.spawn_relay(url, run)?;
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
        if !findings.is_exact() {
            self.reach(&run.topic(), &run.group(), run.through.as_ref()).await?;
        }
        for line in history.explain(&truth, if findings.is_exact() { 0 } else { 5 }) {
            tracing::warn!("{line}");
        }
        Ok(Report {
            store: url.to_string(),
            through: self.through.as_ref().map(ToString::to_string),
            reader: self.reader.name(),
            is_right: self.reader.is_right_on(url.kind()),
            seconds: self.seconds,
            writers: self.writers,
            commits: tally.commits,
            rollbacks: tally.rollbacks,
            savepoint_rollbacks: tally.savepoint_rollbacks,
            relay_kills,
            findings,
            failures: None,
        })
    }

    fn spawn_relay(&self, url: &StoreUrl, run: &Run) -> Result<Process> {
        let mut command = self.relay_command(url, &run.workload.prefix)?;
        command.args(["--reader", &self.reader.name()]);
        Process::run(&mut command).context("start the relay's process")
    }

    /// This program as a relay of the run with this prefix.
    fn relay_command(&self, url: &StoreUrl, prefix: &str) -> Result<Command> {
        let program = std::env::current_exe().context("find the running program")?;
        let mut command = Command::new(program);
        command
            .args(["verify", "--relay-of", prefix, "--seed", &self.seed.to_string()])
            .env("POSTROOM__STORE__URL", url.address()) // not in the arguments: it may hold a password
            .stdin(Stdio::null());
        if let Some(through) = &self.through {
            command.env("POSTROOM_VERIFY_THROUGH", through.secret());
        }
        Ok(command)
    }
}

async fn migrate(store: &Arc<dyn Inspect>) -> Result<()> {
    let migrated = migration::up(store.db(), PLATFORM, store.migrations()).await;
    migrated.context("make the tables")?;
    Ok(())
}
