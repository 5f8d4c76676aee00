//! `postroom verify --failures`: the same proof while handlers and destinations fail and an operator is at work.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom::{Error, ErrorKind, Inspect};
use postroom_testkit::failures::{Failures, Outcome};
use postroom_testkit::process::Process;
use postroom_testkit::verify;
use postroom_testkit::workload::Workload;

use super::report::Report;
use super::{Verify, migrate};
use crate::broker::BrokerAddress;
use crate::command::trial::{Ground, progress};
use crate::output::{print, print_json};
use crate::store::StoreUrl;

/// More keys than without failures: each failure holds up its own.
const KEYS: u32 = 512;
/// So many faults are explained.
const WORDS_MAX: usize = 20;
/// What the relay processes say.
const LOG: &str = "relays.log";

impl Verify {
    pub(super) async fn run_failing(&self, named: Option<&StoreUrl>) -> Result<()> {
        let ground = Ground::new(named)?;
        let folder = tempfile::tempdir().context("make a folder for the journals of the relays")?;
        let run = self.plan_failing(&format!("v{}-", uuid::Uuid::now_v7().simple()), folder.path())?;
        let store = self.open(&ground).await?;
        let groups = run.fed_groups();
        let group = groups.first().map_or("", String::as_str);
        self.reach(&run.topic(), group, run.through.as_ref()).await?;
        migrate(&store).await?;
        run.prepare(&*store).await.context("prepare the run")?;
        let outcome = Box::pin(self.fail(&ground.url, &run, &store)).await;
        progress("");
        run.remove(&*store).await.context("clean up")?;
        self.remove_topic(&run.topic(), &groups).await;
        let outcome = outcome?;
        if !outcome.findings.is_exact() {
            self.reach(&run.topic(), group, run.through.as_ref()).await?;
            self.remove_topic(&run.topic(), &groups).await;
            for line in outcome.words.iter().take(WORDS_MAX) {
                tracing::warn!("{line}");
            }
            tracing::warn!("what the relays said is in {}", folder.keep().join(LOG).display());
        }
        self.conclude(&self.report(&ground.url, outcome))
    }

    fn conclude(&self, report: &Report) -> Result<()> {
        match self.json {
            true => print_json(report)?,
            false => print(report.page())?,
        }
        if !report.findings.is_exact() {
            bail!("the contract was broken: report it, with what is printed here");
        }
        match report.missing().as_slice() {
            [] => Ok(()),
            missing => bail!(
                "nothing was {}, so this run proves nothing; run it longer, with --seconds {}",
                missing.join(", "),
                self.seconds.saturating_mul(3).max(60)
            ),
        }
    }

    async fn fail(&self, url: &StoreUrl, run: &Failures, store: &Arc<dyn Inspect>) -> Result<Outcome> {
        let count = self.writers.saturating_add(1); // one holds the lock on which handlers hang
        let writers = verify::writers(url.address(), &**store, count).await;
        let writers = writers.context("connect the writers")?;
        let spawn = || self.spawn_failing(url, run);
        let length = Duration::from_secs(self.seconds);
        Ok(run.run((&**store, &writers), length, &spawn, &progress).await?)
    }

    fn spawn_failing(&self, url: &StoreUrl, run: &Failures) -> postroom::Result<Process> {
        let spawn = |command: &mut Command| {
            let log = OpenOptions::new()
                .create(true)
                .append(true)
                .open(run.folder.join(LOG))?;
            command.arg("--failures").arg("--journal").arg(&run.folder).stderr(log);
            anyhow::Ok(Process::run(command)?)
        };
        let command = self.relay_command(url, &run.workload.prefix);
        let spawned = command.and_then(|mut command| spawn(&mut command));
        spawned.map_err(|error| {
            Error::caused(
                ErrorKind::Failed,
                "start a relay's process",
                std::io::Error::other(error),
            )
        })
    }

    pub(super) fn plan_failing(&self, prefix: &str, folder: &Path) -> Result<Failures> {
        Ok(Failures {
            workload: Workload {
                prefix: prefix.to_owned(),
                writers: self.writers,
                keys: KEYS,
                seed: self.seed,
            },
            through: self.through.as_ref().map(BrokerAddress::open).transpose()?,
            folder: folder.to_owned(),
        })
    }

    fn report(&self, url: &StoreUrl, outcome: Outcome) -> Report {
        Report {
            store: url.to_string(),
            through: self.through.as_ref().map(ToString::to_string),
            reader: self.reader.name(),
            is_right: true,
            seconds: self.seconds,
            writers: self.writers,
            commits: outcome.tally.commits,
            rollbacks: outcome.tally.rollbacks,
            savepoint_rollbacks: outcome.tally.savepoint_rollbacks,
            relay_kills: outcome.relay_kills,
            findings: outcome.findings,
            failures: Some(outcome.counts),
        }
    }
}
