//! `postroom bench idle`: what a relay costs that has nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use postroom::{Event, Inspect, Migration, Outbox, Page, Position, Prune, Pulse, Relay, Start, Subscriber, Tx};
use sea_orm::DatabaseConnection;
use serde::Serialize;
use tokio::time::sleep;

use crate::cpu::{self, Cpu};
use crate::figure::{Figure, Outcome};
use crate::native::Native;
use crate::running::Running;
use crate::site::Site;

/// Until leases are taken, the pulse has slowed down, and PostgreSQL has counted what came before (it takes ten seconds).
const SETTLE: Duration = Duration::from_secs(12);
const POSTGRES_QUERIES: &str = include_str!("../sql/queries.postgres.sql");
const MYSQL_QUERIES: &str = include_str!("../sql/queries.mysql.sql");

/// Measures the cost of a relay that has nothing to do.
#[derive(Debug)]
pub struct IdleBench {
    /// Number of subscribers.
    pub subscribers: u16,
    /// Duration of the measurement.
    pub seconds: u32,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct IdleResult {
    queries_per_s: f64,
    cpu_percent: f64,
    server_cpu_percent: Option<f64>,
    #[serde(skip)]
    counted: &'static str,
}

impl IdleBench {
    pub(super) async fn run(&self, site: &Site) -> Result<IdleResult> {
        let counted = Arc::new(Counted::over(Arc::clone(&site.store)));
        let outbox: Arc<dyn Outbox> = Arc::<Counted>::clone(&counted);
        let relay = (0..self.subscribers).fold(Relay::new(outbox), |relay, number| {
            let mut subscriber = Subscriber::matching(format!("bench-idle-{number}"), ["postroom.bench.idle"], nothing);
            subscriber.start = Start::Head;
            relay.subscriber(subscriber)
        });
        let relay = Running::of(relay);
        site.progress("waiting until it is idle");
        sleep(SETTLE).await;
        let before = Reading::take(site, &counted).await?;
        for second in 0..self.seconds {
            site.progress(&format!("watching it: {second} of {} s", self.seconds));
            sleep(Duration::from_secs(1)).await;
        }
        let after = Reading::take(site, &counted).await?;
        relay.stop().await?;
        Ok(after.since(&before, &site.native))
    }
}

async fn nothing(_tx: &mut Tx, _event: &Event) -> postroom::Result<()> {
    Ok(())
}

/// Counters at one moment.
struct Reading {
    at: Instant,
    queries: u64,
    cpu: Cpu,
    server: Option<Cpu>,
}

impl Reading {
    async fn take(site: &Site, counted: &Counted) -> Result<Self> {
        let queries = match site.native {
            Native::Postgres(_) => counter(site, POSTGRES_QUERIES, 0).await?,
            Native::Mysql(_) => counter(site, MYSQL_QUERIES, 1).await?,
            Native::Sqlite(_) => counted.queries.load(Ordering::Relaxed),
        };
        let server = site.server_cpu().await?;
        let cpu = cpu::own().context("read this process's CPU time from /proc")?;
        Ok(Self {
            at: Instant::now(),
            queries,
            cpu,
            server,
        })
    }

    fn since(&self, before: &Self, native: &Native) -> IdleResult {
        let seconds = (self.at - before.at).as_secs_f64();
        // Both servers count the question for the counter itself, once.
        let asked = if matches!(native, Native::Sqlite(_)) { 0 } else { 1 };
        let queries = self.queries.saturating_sub(before.queries + asked);
        IdleResult {
            queries_per_s: queries as f64 / seconds,
            cpu_percent: self.cpu.percent_since(&before.cpu, seconds),
            server_cpu_percent: self
                .server
                .as_ref()
                .zip(before.server.as_ref())
                .map(|(now, then)| now.percent_since(then, seconds)),
            counted: match native {
                Native::Postgres(_) => "transactions, by pg_stat_database",
                Native::Mysql(_) => "statements of the whole server, by Questions",
                Native::Sqlite(_) => "statements, counted in this process",
            },
        }
    }
}

async fn counter(site: &Site, sql: &'static str, column: usize) -> Result<u64> {
    let text = site
        .text(sql, column)
        .await?
        .context("the server has no such counter")?;
    text.parse().context("read the server's counter")
}

/// A store that counts what is asked of it.
#[derive(Debug)]
struct Counted {
    store: Arc<dyn Inspect>,
    db: DatabaseConnection,
    queries: Arc<AtomicU64>,
}

impl Counted {
    fn over(store: Arc<dyn Inspect>) -> Self {
        let queries = Arc::new(AtomicU64::new(0));
        let db = counted(store.db().clone(), &queries);
        Self { store, db, queries }
    }

    fn count(&self) -> &dyn Inspect {
        self.queries.fetch_add(1, Ordering::Relaxed);
        &*self.store
    }
}

fn counted(mut db: DatabaseConnection, queries: &Arc<AtomicU64>) -> DatabaseConnection {
    let queries = Arc::clone(queries);
    db.set_metric_callback(move |_| {
        queries.fetch_add(1, Ordering::Relaxed);
    });
    db
}

#[async_trait]
impl Outbox for Counted {
    fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        counted(self.store.pool(connections_max), &self.queries)
    }

    fn migrations(&self) -> &'static [Migration] {
        self.store.migrations()
    }

    async fn pulse(&self) -> postroom::Result<Pulse> {
        self.count().pulse().await
    }

    async fn read(&self, after: Position, limit: usize) -> postroom::Result<Page> {
        self.count().read(after, limit).await
    }

    async fn head(&self) -> postroom::Result<Position> {
        self.count().head().await
    }

    async fn prune(&self, prune: &Prune) -> postroom::Result<u64> {
        self.count().prune(prune).await
    }
}

impl IdleResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let server = self
            .server_cpu_percent
            .map_or("-".to_owned(), |percent| format!("{percent:.2} %"));
        let figures = vec![
            Figure::new(
                "queries",
                format!("{:.2} /s", self.queries_per_s),
                format!("{}; goal: 2", self.counted),
            ),
            Figure::new(
                "CPU of the relay",
                format!("{:.2} %", self.cpu_percent),
                "of one core; goal: 0.5 %",
            ),
            Figure::new(
                "CPU of the server",
                server,
                "with whatever else it does; - when it is elsewhere",
            ),
        ];
        Outcome::new(self, figures)
    }
}
