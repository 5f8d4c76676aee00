//! `postroom bench ingest`: how many events of clients are stored in a second, over HTTP in batches of 100.

mod client;
mod plan;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use postroom::{CancellationToken, clock};
use postroom_activity::{Activity, Catalogue};
use postroom_host::{Doors, Module, Platform};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Order, Query};
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::HASH_SECRET;
use crate::cpu::{self, Cpu};
use crate::figure::{Figure, Outcome, limited_by, percentile};
use crate::native::{Sql, Value, sql};
use crate::site::Site;
use client::Seen;
use plan::{BATCH, Plan, SESSION};

const ACTIVITY: Sql = sql!("activity");
/// Events that are inserted without Postroom, before and again after the clients; fewer for a short run.
const PLAIN_MAX: u64 = 50_000;
/// Connections of the inserts without Postroom: as many as the pool of a store has.
const CONNECTIONS_MAX: u64 = 16;
/// Ids that are read at once.
const PAGE: u64 = 50_000;

/// Measures how fast events of clients are stored.
#[derive(Debug)]
pub struct IngestBench {
    /// Number of events, of which 5 % are repeated and 1 % invalid.
    pub events: u32,
    /// Clients side by side, each with a connection of its own.
    pub clients: u16,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct IngestResult {
    /// Stored events per second.
    events_per_s: f64,
    stored: u64,
    duplicates: u64,
    dropped: u64,
    /// Requests that were sent again because the database did not answer in time.
    again: u64,
    p50_ms: f64,
    p99_ms: f64,
    limit_events_per_s: f64,
    ratio_to_limit: f64,
    /// CPU time for each event that was sent, in microseconds.
    process_us_per_event: f64,
    server_us_per_event: Option<f64>,
    /// The same for each event that was inserted without Postroom.
    limit_server_us_per_event: Option<f64>,
    #[serde(flatten)]
    load: Load,
    limited_by: String,
}

/// CPU time while clients sent, in percent of one core.
#[derive(Debug, Serialize)]
struct Load {
    process_cpu_percent: f64,
    clients_cpu_percent: f64,
    /// `None` if the database has no process of its own on this machine.
    server_cpu_percent: Option<f64>,
    /// Everything else on this machine.
    other_cpu_percent: f64,
    /// All cores of this machine.
    all_cpu_percent: f64,
}

impl IngestBench {
    /// Modules whose tables the bench needs.
    pub(super) fn modules() -> [Module; 1] {
        [Activity::default().module()]
    }

    pub(super) async fn run(&self, site: &Site) -> Result<IngestResult> {
        let plan = Plan::new(clock::now(), self.events.into(), self.clients.into());
        let plain = (plan.events / 4).clamp(BATCH, PLAIN_MAX);
        let mut limit = Limit::default();
        limit.insert(site, plan, plain).await?;
        let (seen, load) = send(site, plan).await?;
        limit.insert(site, plan, plain).await?;
        check(site, plan, &seen).await?;
        let mut latencies_ms = seen.latencies_ms;
        latencies_ms.sort_unstable_by(f64::total_cmp);
        let events_per_s = seen.stored as f64 / seen.took.as_secs_f64();
        let limit_events_per_s = limit.events as f64 / limit.took.as_secs_f64();
        let us_per_event = |percent: f64| percent / 100.0 * seen.took.as_secs_f64() * 1e6 / plan.events as f64;
        Ok(IngestResult {
            events_per_s,
            stored: seen.stored,
            duplicates: seen.duplicates,
            dropped: seen.dropped,
            again: seen.again,
            p50_ms: percentile(&latencies_ms, 0.5),
            p99_ms: percentile(&latencies_ms, 0.99),
            limit_events_per_s,
            ratio_to_limit: events_per_s / limit_events_per_s,
            process_us_per_event: us_per_event(load.process_cpu_percent),
            server_us_per_event: load.server_cpu_percent.map(us_per_event),
            limit_server_us_per_event: limit.server_us_per_event(),
            limited_by: load.limit(),
            load,
        })
    }
}

/// A process that takes events of clients; its relay runs beside, as it does in a daemon.
async fn serve(
    site: &Site,
    stop: &CancellationToken,
    running: &mut JoinSet<postroom::Result<()>>,
) -> Result<SocketAddr> {
    let catalogue = Catalogue::default().event("page.viewed", "v1", ["path", "position"])?;
    let settings = json!({ "client_ingest_enabled": true, "ingest_rate_limit_per_minute": u32::MAX, "pii": { "hash_secret": HASH_SECRET } });
    let module = Activity::default().catalogue(catalogue).module();
    let module = module.configure(settings.as_object().cloned().unwrap_or_default())?;
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("listen on a free port")?;
    let server = listener.local_addr().context("read the bound address")?;
    let platform = Platform::new(Arc::clone(&site.store))
        .module(module)
        .doors(Doors::unlocked());
    running.spawn(platform.serve(listener).build()?.run(stop.clone()));
    Ok(server)
}

/// The clients send everything to a process.
async fn send(site: &Site, plan: Plan) -> Result<(Seen, Load)> {
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let server = serve(site, &stop, &mut running).await?;
    site.progress(&format!("{} clients send {} events", plan.clients, plan.events));
    let before = Moment::take(site).await?;
    let sending = tokio::task::spawn_blocking(move || client::run(server, plan));
    let seen = sending.await.context("run the clients")??;
    let load = Moment::take(site).await?.since(&before, &seen);
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.context("run the process")??;
    }
    Ok((seen, load))
}

/// The same inserts through the driver, a hundred events to a transaction, side by side as the clients are.
#[derive(Debug, Default)]
struct Limit {
    events: u64,
    took: Duration,
    /// CPU time of the database, in seconds, if it has a process on this machine.
    server_s: Option<f64>,
}

impl Limit {
    async fn insert(&mut self, site: &Site, plan: Plan, count: u64) -> Result<()> {
        site.progress(&format!("{count} events without Postroom"));
        let before = site.server_cpu().await?;
        let begun = Instant::now();
        let (mut inserting, lanes) = (JoinSet::new(), Ord::min(plan.clients, CONNECTIONS_MAX));
        for lane in 0..lanes {
            let (native, from) = (site.native.clone(), self.events);
            inserting.spawn(async move {
                let mut at = lane * BATCH;
                while at < count {
                    let events = plan.plain(from + at, Ord::min(BATCH, count - at))?;
                    let mut tx = native.begin().await.context("begin a transaction")?;
                    let values = [Value::Text(&events)];
                    tx.execute(ACTIVITY, &values).await.context("insert events")?;
                    tx.commit().await?;
                    at += lanes * BATCH;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = inserting.join_next().await {
            ended.context("insert without Postroom")??;
        }
        self.took += begun.elapsed();
        self.events += count;
        let used = site.server_cpu().await?.zip(before);
        let used_s = used.map(|(now, before)| now.percent_since(&before, 1.0) / 100.0);
        self.server_s = used_s.map(|used_s| used_s + self.server_s.unwrap_or_default());
        Ok(())
    }

    fn server_us_per_event(&self) -> Option<f64> {
        Some(self.server_s? * 1e6 / self.events as f64)
    }
}

/// Exactly the valid events are stored, each once.
async fn check(site: &Site, plan: Plan, seen: &Seen) -> Result<()> {
    let expected = plan.stored();
    ensure!(
        seen.stored == expected,
        "{} events were answered ok, not {expected}",
        seen.stored
    );
    let counted = site
        .count_where("user_activity_event", Expr::col("session_id").eq(SESSION))
        .await?;
    ensure!(
        u64::try_from(counted)? == expected,
        "{counted} events are stored, not {expected}"
    );
    let (mut found, mut last) = (0, String::new());
    loop {
        site.progress(&format!("checking the ids: {found} of {expected}"));
        let mut select = Query::select();
        select
            .column("event_id")
            .from("user_activity_event")
            .and_where(Expr::col("session_id").eq(SESSION))
            .and_where(Expr::col("event_id").gt(last.as_str()))
            .order_by("event_id", Order::Asc)
            .limit(PAGE);
        let rows = site
            .store
            .db()
            .query_all(&select)
            .await
            .context("read the stored ids")?;
        for row in &rows {
            last = row.try_get("", "event_id")?;
            let id: Uuid = last.parse().context("read a stored id")?;
            ensure!(plan.is_stored(id), "{id} is stored and should not be");
        }
        found += rows.len() as u64;
        if rows.is_empty() {
            break;
        }
    }
    ensure!(found == expected, "{found} ids are stored, not {expected}");
    Ok(())
}

/// CPU times at one moment.
struct Moment {
    own: Cpu,
    machine: Cpu,
    server: Option<Cpu>,
}

impl Moment {
    async fn take(site: &Site) -> Result<Self> {
        let missing = "read CPU times from /proc";
        Ok(Self {
            own: cpu::own().context(missing)?,
            machine: cpu::machine().context(missing)?,
            server: site.server_cpu().await?,
        })
    }

    fn since(&self, before: &Self, seen: &Seen) -> Load {
        let seconds = seen.took.as_secs_f64();
        let own = self.own.percent_since(&before.own, seconds);
        let server = self.server.as_ref().zip(before.server.as_ref());
        let server = server.map(|(now, then)| now.percent_since(then, seconds));
        let machine = self.machine.percent_since(&before.machine, seconds);
        Load {
            process_cpu_percent: (own - seen.cpu_percent).max(0.0),
            clients_cpu_percent: seen.cpu_percent,
            server_cpu_percent: server,
            other_cpu_percent: (machine - own - server.unwrap_or(0.0)).max(0.0),
            all_cpu_percent: 100.0 * std::thread::available_parallelism().map_or(1, usize::from) as f64,
        }
    }
}

impl Load {
    /// The limit of the throughput, by these numbers.
    fn limit(&self) -> String {
        let server = self.server_cpu_percent.unwrap_or(0.0);
        let parts = [
            (server, "the database"),
            (self.process_cpu_percent, "the process"),
            (self.clients_cpu_percent, "the clients"),
            (self.other_cpu_percent, "other programs"),
        ];
        limited_by(&parts, self.all_cpu_percent, "waiting for the database")
    }
}

impl IngestResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let percent = |value: f64| format!("{value:.0} %");
        let figures = vec![
            Figure::new(
                "stored events",
                format!("{:.0}/s", self.events_per_s),
                "in batches of 100 over HTTP; goal: 10,000/s",
            ),
            Figure::new(
                "the same inserts without Postroom",
                format!("{:.0}/s", self.limit_events_per_s),
                format!("ratio: {:.2}", self.ratio_to_limit),
            ),
            Figure::new("a request, p50", format!("{:.1} ms", self.p50_ms), ""),
            Figure::new("a request, p99", format!("{:.1} ms", self.p99_ms), ""),
            Figure::new(
                "stored",
                self.stored.to_string(),
                format!(
                    "checked by count and by id; besides {} duplicates, {} dropped, {} requests sent again",
                    self.duplicates, self.dropped, self.again
                ),
            ),
            Figure::new(
                "CPU of the process",
                percent(self.load.process_cpu_percent),
                "of one core",
            ),
            Figure::new("CPU of the clients", percent(self.load.clients_cpu_percent), ""),
            Figure::new(
                "CPU of the database",
                self.load.server_cpu_percent.map_or("-".to_owned(), percent),
                "- when it is elsewhere or in the process",
            ),
            Figure::new(
                "CPU for an event",
                format!("{:.0} µs", self.process_us_per_event),
                match self.server_us_per_event.zip(self.limit_server_us_per_event) {
                    None => "in the process".to_owned(),
                    Some((server, limit)) => {
                        format!("in the process; in the database {server:.0} µs, without Postroom {limit:.0} µs")
                    }
                },
            ),
            Figure::new("CPU of other programs", percent(self.load.other_cpu_percent), ""),
            Figure::new("limited by", String::new(), self.limited_by.clone()),
        ];
        Outcome::new(self, figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_named_by_the_numbers() {
        let load = |server: f64, process: f64| Load {
            process_cpu_percent: process,
            clients_cpu_percent: 10.0,
            server_cpu_percent: Some(server),
            other_cpu_percent: 5.0,
            all_cpu_percent: 200.0,
        };
        assert_eq!(
            load(110.0, 70.0).limit(),
            "the CPU: 195 of 200 % are used, most of it (110 %) by the database"
        );
        assert_eq!(
            load(40.0, 35.0).limit(),
            "waiting for the database: 90 of 200 % CPU are used"
        );
    }
}
