//! The process with the clients, as the bench sees it: it is told what to do by lines, and answers by lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom_proof::process::Process;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Protocol, Report, Seen};

/// Longer than anything takes that goes on.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running process with clients. Dropping it kills the process.
pub(super) struct Clients {
    _process: Process,
    commands: ChildStdin,
    /// The newest answer. Earlier ones are worth nothing then, so none waits to be read and holds up the clients.
    report: watch::Receiver<Option<Report>>,
    _reader: JoinSet<()>,
}

impl Clients {
    /// Starts the process and waits until all its clients are connected.
    pub(super) async fn start(server: SocketAddr, protocol: Protocol, connections: u32) -> Result<Self> {
        let program = std::env::current_exe().context("find the running program")?;
        let mut command = Command::new(program);
        command
            .args(["bench", "stream-clients", "--protocol", protocol.name()])
            .args(["--server", &server.to_string()])
            .args(["--connections", &connections.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::run(&mut command)?;
        let child = process.child();
        let (Some(commands), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the process with the clients has no pipes");
        };
        let (sender, report) = watch::channel(None);
        let mut reader = JoinSet::new();
        reader.spawn_blocking(move || read(output, &sender));
        let mut clients = Self {
            _process: process,
            commands,
            report,
            _reader: reader,
        };
        clients.until("connect all clients", |_any| true).await?;
        Ok(clients)
    }

    /// Waits until all clients have all frames up to this one.
    pub(super) async fn until_complete(&mut self, frame: u64) -> Result<()> {
        let has_it = |report: &Report| matches!(report, Report::Complete(complete) if *complete >= frame);
        match frame {
            0 => Ok(()),
            _ => self.until("deliver a frame to all clients", has_it).await.map(drop),
        }
    }

    /// The measurement of throughput begins.
    pub(super) fn begin_fast(&mut self) -> Result<()> {
        self.tell("fast")
    }

    /// The measurement of throughput has ended.
    pub(super) fn end_fast(&mut self) -> Result<()> {
        self.tell("paced")
    }

    /// Ends the clients; answers what they have seen.
    pub(super) async fn end(mut self) -> Result<Seen> {
        self.tell("end")?;
        match self
            .until("end the clients", |report| matches!(report, Report::End(_)))
            .await?
        {
            Report::End(seen) => Ok(seen),
            other => bail!("the clients ended with {other:?}"),
        }
    }

    fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}").context("command the clients")
    }

    /// The first report of this kind.
    async fn until(&mut self, doing: &str, is_it: impl Fn(&Report) -> bool) -> Result<Report> {
        let has_come = |report: &Option<Report>| {
            let report = report.as_ref();
            report.is_some_and(|report| is_it(report) || matches!(report, Report::Failed(_)))
        };
        let report = timeout(PATIENCE, self.report.wait_for(has_come)).await;
        let report = report.with_context(|| format!("{doing}: nothing happened for {} s", PATIENCE.as_secs()))?;
        let report = report.with_context(|| format!("{doing}: the process with the clients ended"))?;
        match report.as_ref() {
            Some(Report::Failed(says)) => bail!("{doing}: {says}"),
            Some(report) => Ok(report.clone()),
            None => bail!("{doing}: no report"),
        }
    }
}

/// Reads reports until the process has closed its output.
fn read(output: ChildStdout, report: &watch::Sender<Option<Report>>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for newest in lines.map_while(|line| serde_json::from_str(&line).ok()) {
        report.send_replace(Some(newest));
    }
}
