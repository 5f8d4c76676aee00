//! `postroom bench sse` and `bench chat`: the memory of idle connections, and how fast frames reach all of them.
//!
//! The server is this process; its connections come from a second process, so that memory and CPU time can be told apart. Frames come
//! from a journal in memory, because the hub and the HTTP server are measured here and not a database.

mod client;
mod clients;
mod journal;
mod latency;
mod server;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::cpu;
use crate::figure::{Figure, Outcome, limited_by};
use crate::site::Site;
use client::Seen;
use clients::Clients;
use server::StreamServer;

pub use client::{Protocol, run as run_stream_client};

/// How long connections are idle before the memory of the server is read: each has had its first ping, after at most 20 s.
const IDLE: Duration = Duration::from_secs(25);
/// How long the server rests after the last frame before its memory is read again.
const REST: Duration = Duration::from_secs(3);
/// Frames that are under way to all connections at most, while the throughput is measured.
const WINDOW: u64 = 4;
/// The part of the throughput at which latency is measured.
const PACED: f64 = 0.5;

/// Measures streams to clients.
#[derive(Debug)]
pub struct StreamBench {
    /// How they are connected.
    pub protocol: Protocol,
    /// Number of connections, all on one stream.
    pub connections: u32,
    /// How long throughput is measured, and latency after it.
    pub seconds: u32,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct StreamResult {
    protocol: Protocol,
    connections: u32,
    /// The number of files that each process may open.
    open_files_max: Option<u64>,
    connected_per_s: f64,
    /// Resident memory of the server, in bytes, for each idle connection.
    rss_bytes_per_connection: f64,
    /// The same after all frames.
    rss_bytes_per_connection_after: f64,
    frames: u64,
    deliveries: u64,
    deliveries_per_s: f64,
    paced_deliveries_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    gaps: u64,
    duplicates: u64,
    server_cpu_percent: f64,
    clients_cpu_percent: f64,
    limited_by: String,
}

/// The measurements of one phase of frames.
struct Phase {
    frames: u64,
    took: Duration,
    server_cpu_percent: f64,
}

impl StreamBench {
    pub(super) async fn run(&self, site: &Site) -> Result<StreamResult> {
        let server = StreamServer::start(site, self.connections).await?;
        let empty = rss()?;
        site.progress(&format!("opening {} connections", self.connections));
        let begun = Instant::now();
        let mut clients = Clients::start(server.address, self.protocol, self.connections).await?;
        let connected_per_s = f64::from(self.connections) / begun.elapsed().as_secs_f64();
        site.progress(&format!("{} connections are idle", self.connections));
        sleep(IDLE).await;
        let per_connection = |now: u64| now.saturating_sub(empty) as f64 / f64::from(self.connections);
        let idle = rss()?;
        site.progress("as many frames as the clients take");
        let fast = self.send_fast(&server, &mut clients).await?;
        let deliveries_per_s = self.deliveries(fast.frames) as f64 / fast.took.as_secs_f64();
        let pace = (PACED * deliveries_per_s / f64::from(self.connections)).max(0.2);
        site.progress(&format!("{pace:.1} frames a second"));
        let paced = self.send_paced(&server, &mut clients, pace).await?;
        sleep(REST).await;
        let after = rss()?;
        let seen = clients.end().await?;
        server.stop().await?;
        let frames = fast.frames + paced.frames;
        self.check(&seen, frames)?;
        let all = 100.0 * std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let parts = [
            (fast.server_cpu_percent, "the server"),
            (seen.fast_cpu_percent, "the clients"),
        ];
        Ok(StreamResult {
            protocol: self.protocol,
            connections: self.connections,
            open_files_max: open_files_max(),
            connected_per_s,
            rss_bytes_per_connection: per_connection(idle),
            rss_bytes_per_connection_after: per_connection(after),
            frames,
            deliveries: seen.frames,
            deliveries_per_s,
            paced_deliveries_per_s: self.deliveries(paced.frames) as f64 / paced.took.as_secs_f64(),
            p50_ms: seen.p50_ms,
            p99_ms: seen.p99_ms,
            gaps: seen.gaps,
            duplicates: seen.duplicates,
            server_cpu_percent: fast.server_cpu_percent,
            clients_cpu_percent: seen.fast_cpu_percent,
            limited_by: limited_by(&parts, all, "waiting for acknowledgements of the clients"),
        })
    }

    fn deliveries(&self, frames: u64) -> u64 {
        frames * u64::from(self.connections)
    }

    /// Every frame has reached every client, once and in order.
    fn check(&self, seen: &Seen, frames: u64) -> Result<()> {
        let deliveries = self.deliveries(frames);
        ensure!(
            seen.gaps + seen.duplicates == 0 && seen.frames == deliveries,
            "of {deliveries} deliveries {} arrived, with {} gaps and {} repeated frames",
            seen.frames,
            seen.gaps,
            seen.duplicates
        );
        Ok(())
    }

    /// Sends frames so fast that a few are always under way.
    async fn send_fast(&self, server: &StreamServer, clients: &mut Clients) -> Result<Phase> {
        clients.begin_fast()?;
        let (begun, cpu) = (Instant::now(), cpu::own());
        let limit = Duration::from_secs(self.seconds.into());
        let mut frames = 0;
        while begun.elapsed() < limit {
            server.publish(false).await?;
            frames += 1;
            clients.until_complete(frames - Ord::min(frames, WINDOW)).await?;
        }
        clients.until_complete(frames).await?;
        let took = begun.elapsed();
        clients.end_fast()?;
        let used = cpu::own().zip(cpu);
        Ok(Phase {
            frames,
            took,
            server_cpu_percent: used.map_or(0.0, |(now, then)| now.percent_since(&then, took.as_secs_f64())),
        })
    }

    /// Sends frames at a pace that leaves the machine time.
    async fn send_paced(&self, server: &StreamServer, clients: &mut Clients, pace: f64) -> Result<Phase> {
        let begun = Instant::now();
        let before = server.frames();
        let count = (pace * f64::from(self.seconds)).ceil().max(1.0);
        let mut ticks = interval(Duration::from_secs_f64(1.0 / pace));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while ((server.frames() - before) as f64) < count {
            ticks.tick().await;
            server.publish(true).await?;
        }
        clients.until_complete(server.frames()).await?;
        Ok(Phase {
            frames: server.frames() - before,
            took: begun.elapsed(),
            server_cpu_percent: 0.0,
        })
    }
}

/// The resident memory of this process, in bytes.
fn rss() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| {
        let rest = line.strip_prefix("VmRSS:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.map(|kib| kib << 10)
        .ok_or_else(|| anyhow::anyhow!("/proc/self/status has no VmRSS: this bench needs Linux"))
}

/// How many files this process may open.
fn open_files_max() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl StreamResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let kib = |bytes: f64| format!("{:.1} KiB", bytes / 1024.0);
        let per_s = |value: f64| format!("{value:.0}/s");
        let files = self
            .open_files_max
            .map_or("unlimited".to_owned(), |max| max.to_string());
        let figures = vec![
            Figure::new(
                "connections",
                self.connections.to_string(),
                format!(
                    "opened at {:.0}/s; a process here may open {files} files",
                    self.connected_per_s
                ),
            ),
            Figure::new(
                "memory of an idle connection",
                kib(self.rss_bytes_per_connection),
                "resident, of the server; goal for SSE: 10 KiB; the kernel's buffers come on top",
            ),
            Figure::new(
                "memory after all frames",
                kib(self.rss_bytes_per_connection_after),
                "for each connection",
            ),
            Figure::new(
                "delivered frames",
                per_s(self.deliveries_per_s),
                format!("{} frames to each connection", self.frames),
            ),
            Figure::new(
                "a frame, p50",
                format!("{:.1} ms", self.p50_ms),
                format!(
                    "until a client has it, at {:.0} deliveries/s",
                    self.paced_deliveries_per_s
                ),
            ),
            Figure::new(
                "a frame, p99",
                format!("{:.1} ms", self.p99_ms),
                "the last of all clients included",
            ),
            Figure::new(
                "checked",
                self.deliveries.to_string(),
                format!(
                    "{} gaps, {} repeated, no connection was lost",
                    self.gaps, self.duplicates
                ),
            ),
            Figure::new(
                "CPU of the server",
                format!("{:.0} %", self.server_cpu_percent),
                "of one core",
            ),
            Figure::new("CPU of the clients", format!("{:.0} %", self.clients_cpu_percent), ""),
            Figure::new("limited by", String::new(), self.limited_by.clone()),
        ];
        Outcome::new(self, figures)
    }
}
