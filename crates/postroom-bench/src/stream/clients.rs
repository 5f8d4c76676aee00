//! The process with the clients, as the bench sees it: it is told what to do by lines, and answers by lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom_proof::process::Process;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Protocol, Report, Seen};

/// Longer than anything takes that goes on.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines that wait to be read.
const LINES_MAX: usize = 1_024;

/// A running process with clients. Dropping it kills the process.
pub(super) struct Clients {
    _process: Process,
    commands: ChildStdin,
    reports: mpsc::Receiver<Report>,
    complete: u64,
    _reader: JoinSet<()>,
}

impl Clients {
    /// Starts the process and waits until all its clients are connected.
    pub(super) async fn start(server: SocketAddr, protocol: Protocol, connections: u32) -> Result<Self> {
        let program = std::env::current_exe().context("find the running program")?;
        let mut command = Command::new(program);
        command
            .args(["bench", "stream-clients", "--protocol", protocol.name()])
            .args([
                "--server",
                &server.to_string(),
                "--connections",
                &connections.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::run(&mut command)?;
        let child = process.child();
        let (Some(commands), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the process with the clients has no pipes");
        };
        let (sender, reports) = mpsc::channel(LINES_MAX);
        let mut reader = JoinSet::new();
        reader.spawn_blocking(move || {
            let reports = BufReader::new(output).lines().map_while(Result::ok);
            let reports = reports.map_while(|line| serde_json::from_str(&line).ok());
            for report in reports {
                if sender.blocking_send(report).is_err() {
                    return;
                }
            }
        });
        let mut clients = Self {
            _process: process,
            commands,
            reports,
            complete: 0,
            _reader: reader,
        };
        match clients.report("connect all clients").await? {
            Report::Connected => Ok(clients),
            other => bail!("the clients answered {other:?} before they were connected"),
        }
    }

    /// Waits until all clients have all frames up to this one.
    pub(super) async fn until_complete(&mut self, frame: u64) -> Result<()> {
        while self.complete < frame {
            if let Report::Complete { frame } = self.report("deliver a frame to all clients").await? {
                self.complete = frame;
            }
        }
        Ok(())
    }

    /// The measurement of throughput has ended.
    pub(super) fn mark(&mut self) -> Result<()> {
        self.tell("mark")
    }

    /// Ends the clients; answers what they have seen.
    pub(super) async fn end(mut self) -> Result<Seen> {
        self.tell("end")?;
        loop {
            if let Report::End(seen) = self.report("end the clients").await? {
                return Ok(seen);
            }
        }
    }

    fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}").context("command the clients")
    }

    async fn report(&mut self, doing: &str) -> Result<Report> {
        let report = timeout(PATIENCE, self.reports.recv()).await;
        let report = report.with_context(|| format!("{doing}: nothing happened for {} s", PATIENCE.as_secs()))?;
        match report {
            Some(Report::Failed { says }) => bail!("{doing}: {says}"),
            Some(report) => Ok(report),
            None => bail!("{doing}: the process with the clients ended"),
        }
    }
}
