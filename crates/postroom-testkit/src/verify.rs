//! The whole way under malice: writers that overlap, a relay that is killed, and one effect per event to be shown.
//!
//! `postroom verify` and the fault tests run the same: a [`Run`] on any database, relays as processes of their own that
//! record effects in a table, and the history checker at the end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::table::{self, Table as PlatformTable, named};
use postroom::{
    BatchHandler, Broker, Delays, DomainEvent, Error, ErrorKind, Event, Filter, Inspect, Mode, Outbox, Relay, Result,
    Retry, Route, Start, Subscriber, To, Topic,
};
use sea_orm::sea_query::{Alias, ColumnDef, Expr, ExprTrait, Order, Query, Table};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::history::{Findings, History, Truth};
use crate::twin::Twin;
use crate::workload::{Change, Workload};

const EFFECT: &str = "verify_effect";

/// How long a dead relay keeps the next one waiting in a run.
pub const LEASE: Duration = Duration::from_secs(2);

/// Effects that stand still this long will not come any more.
const QUIET_MAX: Duration = Duration::from_secs(15);
/// The same through a broker, which misses members that were killed only after a while.
const QUIET_MAX_THROUGH: Duration = Duration::from_secs(60);

/// Effects read in one statement.
const PAGE: u64 = 20_000;

/// Which reader the relay uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// The store's own.
    #[default]
    Own,
    /// The broken twin `id > cursor`; right on SQLite, where one writes at a time.
    NaiveId,
    /// The broken twin below `pg_snapshot_xmin`; PostgreSQL only.
    Xmin,
}

/// One verification on a database.
#[derive(Clone, Debug)]
pub struct Run {
    /// What is written.
    pub workload: Workload,
    /// What reads it.
    pub reader: Reader,
    /// The broker that feeds the subscriber, if it is not fed straight from the outbox.
    pub through: Option<Arc<dyn Broker>>,
}

impl Run {
    /// Makes the tables and the cursor, at what is there now.
    pub async fn prepare(&self, store: &dyn Inspect) -> Result<()> {
        self.workload.prepare(store.db()).await?;
        let mut create = Table::create();
        create
            .table(Alias::new(EFFECT))
            .if_not_exists()
            .col(
                ColumnDef::new(Alias::new("seq"))
                    .big_integer()
                    .not_null()
                    .auto_increment()
                    .primary_key(),
            )
            .col(ColumnDef::new(Alias::new("key")).string_len(100).not_null())
            .col(ColumnDef::new(Alias::new("ver")).big_integer().not_null());
        let tx = table::begin(store.db()).await?;
        tx.execute(&create)
            .await
            .map_err(|source| Error::db("make the table of effects", source))?;
        Ok(tx.commit().await?)
    }

    /// A relay whose only subscriber records effects; one process runs one.
    pub fn relay(&self, store: Arc<dyn Inspect>) -> Relay {
        let outbox: Arc<dyn Outbox> = match self.reader {
            Reader::Own => store,
            Reader::NaiveId => Arc::new(Twin::NaiveId(store)),
            Reader::Xmin => Arc::new(Twin::Xmin(store)),
        };
        let subscriber = Subscriber {
            start: Start::Head,
            joins_at: Start::Beginning, // of the topic, which is this run's own
            timeout: LEASE,             // also how long a paused relay's transaction can hold up the next one
            ..Subscriber::in_batches(
                self.group(),
                Change::TYPE,
                RecordEffects {
                    prefix: self.workload.prefix.clone(),
                },
            )
        };
        let relay = Relay::new(outbox).lease_ttl(LEASE);
        match &self.through {
            None => relay.subscriber(subscriber),
            Some(broker) => {
                let fed = subscriber.fed_by(Arc::clone(broker), vec![self.topic()], Filter::all());
                relay.route(self.publishing(broker)).route(fed)
            }
        }
    }

    /// The route that publishes what the subscriber gets from the broker. A broker that refuses is asked again for as long as
    /// the run lasts.
    fn publishing(&self, broker: &Arc<dyn Broker>) -> Route {
        let topic: Topic = self.topic().parse().unwrap_or_default();
        Route {
            start: Start::Head,
            filter: Filter::any_of([Change::TYPE]),
            awaits: vec![self.group()],
            retry: Retry {
                delays: Delays::Fixed(Duration::from_millis(200)),
                attempts_max: None,
                age_max: None,
            },
            ..Route::new(self.publisher(), To::Destination(broker.publisher(topic, Mode::Binary)))
        }
    }

    /// The topic of a run through a broker; it must be there.
    pub fn topic(&self) -> String {
        format!("verify-{}", self.workload.prefix)
    }

    fn publisher(&self) -> String {
        format!("{}publish", self.group())
    }

    /// Connections for the writers. SQLite's queue for the store's one.
    pub async fn writers(&self, url: &str, store: &dyn Inspect) -> Result<DatabaseConnection> {
        if store.db().get_database_backend() == DbBackend::Sqlite {
            return Ok(store.db().clone());
        }
        let mut options = ConnectOptions::new(url);
        options.max_connections(self.workload.writers).sqlx_logging(false);
        Database::connect(options)
            .await
            .map_err(|source| Error::db("connect the writers", source))
    }

    /// Waits until a relay has registered the subscriber: what is written from now on is for it.
    pub async fn until_registered(&self, store: &dyn Inspect) -> Result<()> {
        let begun = Instant::now();
        while !self.is_registered(store.db()).await? {
            if begun.elapsed() > QUIET_MAX {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "no relay has registered the subscriber of this run",
                ));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn is_registered(&self, db: &DatabaseConnection) -> Result<bool> {
        let mut select = Query::select();
        select
            .column("route")
            .from(named(db, PlatformTable::Cursor))
            .and_where(Expr::col("route").eq(self.group()));
        let row = db
            .query_one(&select)
            .await
            .map_err(|source| Error::db("look for the subscriber", source))?;
        Ok(row.is_some())
    }

    /// The subscriber's name.
    pub fn group(&self) -> String {
        format!("verify-{}", self.workload.prefix)
    }

    /// Waits until every committed event has had its effect, or nothing has moved for a while, and checks.
    pub async fn finish(&self, store: &dyn Inspect, stop: &CancellationToken) -> Result<(Findings, History, Truth)> {
        let truth = self.workload.truth(store.db()).await?;
        let expected: u64 = truth.values().copied().map(u64::from).sum();
        let (mut seen, mut moved_at) = (0, Instant::now());
        while seen < expected && moved_at.elapsed() < self.quiet_max() && !stop.is_cancelled() {
            let now = self.effects(store.db()).await?;
            if now > seen {
                (seen, moved_at) = (now, Instant::now());
            }
            sleep(Duration::from_millis(50)).await;
        }
        let history = self.history(store.db()).await?;
        Ok((history.check(&truth), history, truth))
    }

    fn quiet_max(&self) -> Duration {
        self.through.as_ref().map_or(QUIET_MAX, |_| QUIET_MAX_THROUGH)
    }

    /// How many effects there are so far.
    pub async fn effects(&self, db: &DatabaseConnection) -> Result<u64> {
        let mut select = Query::select();
        select
            .expr_as(Expr::cust("count(*)"), "effects")
            .from(Alias::new(EFFECT))
            .and_where(Expr::col(Alias::new("key")).like(format!("{}%", self.workload.prefix)));
        let row = db
            .query_one(&select)
            .await
            .map_err(|source| Error::db("count effects", source))?;
        let effects: i64 = row.map_or(Ok(0), |row| row.try_get("", "effects"))?;
        Ok(u64::try_from(effects).unwrap_or(0))
    }

    /// All effects in the order they were recorded.
    async fn history(&self, db: &DatabaseConnection) -> Result<History> {
        let (mut history, mut seq) = (History::default(), 0_i64);
        loop {
            let mut select = Query::select();
            select
                .columns(["seq", "key", "ver"].map(Alias::new))
                .from(Alias::new(EFFECT))
                .and_where(Expr::col(Alias::new("seq")).gt(seq))
                .order_by(Alias::new("seq"), Order::Asc)
                .limit(PAGE);
            let rows = db
                .query_all(&select)
                .await
                .map_err(|source| Error::db("read effects", source))?;
            if rows.is_empty() {
                return Ok(history);
            }
            for row in &rows {
                let key: String = row.try_get("", "key")?;
                seq = row.try_get("", "seq")?;
                if key.starts_with(&self.workload.prefix) {
                    let version: i64 = row.try_get("", "ver")?;
                    history.record(&key, u32::try_from(version).unwrap_or(u32::MAX));
                }
            }
        }
    }

    /// Forgets the routes and drops the tables of all runs. The relays must be gone.
    pub async fn remove(&self, store: &dyn Inspect) -> Result<()> {
        forget(store, &self.group()).await?;
        forget(store, &self.publisher()).await?;
        Workload::remove(store.db()).await?;
        let mut drop = Table::drop();
        drop.table(Alias::new(EFFECT)).if_exists();
        store
            .db()
            .execute(&drop)
            .await
            .map_err(|source| Error::db("drop the table of effects", source))?;
        Ok(())
    }
}

async fn forget(store: &dyn Inspect, route: &str) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = postroom::inspect::forget(store, route, "verify").await {
        match error.kind() {
            ErrorKind::NotFound => break,
            // A relay that was killed keeps its lease until it runs out.
            ErrorKind::Conflict if begun.elapsed() < QUIET_MAX => sleep(Duration::from_millis(100)).await,
            _ => return Err(error),
        }
    }
    Ok(())
}

/// The effect of an event: one row.
#[derive(Debug)]
struct RecordEffects {
    prefix: String,
}

#[async_trait]
impl BatchHandler for RecordEffects {
    async fn handle(&self, tx: &DatabaseTransaction, events: &[&Event]) -> Result<()> {
        let mut insert = Query::insert();
        insert
            .into_table(Alias::new(EFFECT))
            .columns(["key", "ver"].map(Alias::new));
        let mut is_empty = true;
        for event in events {
            let Some(change) = Change::of(event)?.filter(|change| change.key.starts_with(&self.prefix)) else {
                continue;
            };
            insert.values_panic([change.key.into(), i64::from(change.ver).into()]);
            is_empty = false;
        }
        if !is_empty {
            tx.execute(&insert)
                .await
                .map_err(|source| Error::db("record effects", source))?;
        }
        Ok(())
    }
}
