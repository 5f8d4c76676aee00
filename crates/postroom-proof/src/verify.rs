//! The whole way under malice: writers that overlap, a relay that is killed, and one effect per event to be shown.
//!
//! `postroom verify` and the fault tests run the same: a [`Run`] on any database, relays as processes of their own that
//! record effects in a table, and the history checker at the end.

pub(crate) mod effects;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom::table::{Table as PlatformTable, named};
use postroom::{
    BatchHandler, BoxError, Broker, Delays, DomainEvent, Error, ErrorKind, Event, Filter, Idempotency, Inspect, Mode,
    Outbox, Relay, Result, Retry, Route, Start, Subscriber, To, Topic, Tx,
};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::failures::{Group, Journal};
use crate::history::{Findings, History, Truth};
use crate::process::Process;
use crate::trial::Outcome;
use crate::twin::Twin;
use crate::workload::{Change, Workload};

/// Under this name the run's one subscriber records effects.
const WHO: &str = "natural";

/// Time between two kills of the relay.
const KILL_EVERY: Duration = Duration::from_secs(3);
/// Number of keys whose faults are explained.
const WORDS_MAX: usize = 5;

/// How long a dead relay keeps the next one waiting in a run.
pub const LEASE: Duration = Duration::from_secs(2);

/// Effects that stand still this long will not come any more.
const QUIET_MAX: Duration = Duration::from_secs(15);
/// The same through a broker, which misses members that were killed only after a while.
const QUIET_MAX_THROUGH: Duration = Duration::from_secs(60);

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

impl Reader {
    /// Whether this reader must stay exact on a database.
    pub fn is_right_on(self, backend: DbBackend) -> bool {
        match self {
            Self::Own => true,
            Self::NaiveId => backend == DbBackend::Sqlite,
            Self::Xmin => false,
        }
    }
}

/// One verification on a database.
#[derive(Clone, Debug)]
pub struct Run {
    /// The writers.
    pub workload: Workload,
    /// The reader of the relay.
    pub reader: Reader,
    /// The broker that feeds the subscriber, if it is not fed straight from the outbox.
    pub through: Option<Arc<dyn Broker>>,
    /// The subscriber has no inbox, so that one effect is the fence's work alone, and keeps a journal in this folder.
    pub natural: Option<PathBuf>,
}

impl Run {
    /// Makes the tables and the cursor, at what is there now.
    pub async fn prepare(&self, store: &dyn Inspect) -> Result<()> {
        self.workload.prepare(store.db()).await?;
        effects::create(store.db()).await
    }

    /// A relay whose only subscriber records effects; one process runs one.
    pub fn relay(&self, store: Arc<dyn Inspect>) -> Result<Relay> {
        let outbox: Arc<dyn Outbox> = match self.reader {
            Reader::Own => store,
            Reader::NaiveId => Arc::new(Twin::NaiveId(store)),
            Reader::Xmin => Arc::new(Twin::Xmin(store)),
        };
        let handler = RecordEffects {
            prefix: self.workload.prefix.clone(),
            journal: self.natural.as_deref().map(Journal::open).transpose()?,
        };
        let subscriber = Subscriber {
            start: Start::Head,
            joins_at: Start::Beginning, // of the topic, which is this run's own
            idempotency: match self.natural {
                None => Idempotency::Inbox,
                Some(_) => Idempotency::Natural,
            },
            ..Subscriber::in_batches(self.group(), [Change::TYPE], handler)
        };
        let relay = Relay::new(outbox).lease_ttl(LEASE);
        Ok(match &self.through {
            None => relay.subscriber(subscriber),
            Some(broker) => {
                let fed = subscriber.fed_by(Arc::clone(broker), vec![self.topic()], Filter::all());
                relay.route(self.publishing(broker)).route(fed)
            }
        })
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

    /// Runs for this long with relay processes that `spawn` starts, one at a time, waits for the last effects, and checks. `tell`
    /// receives the progress.
    pub async fn run(
        &self,
        (store, writers): (&dyn Inspect, &DatabaseConnection),
        length: Duration,
        spawn: &(dyn Fn() -> Result<Process> + Sync),
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<Outcome> {
        let stop = CancellationToken::new();
        let mut relay = spawn()?;
        self.until_registered(store).await?;
        let killing = async {
            let killed = kill_and_restart(&mut relay, length, spawn, tell).await;
            stop.cancel();
            killed
        };
        let (tally, relay_kills) = tokio::join!(Box::pin(self.workload.run(writers, &stop)), killing);
        let (tally, relay_kills) = (tally?, relay_kills?);
        tell("waiting for the last effects");
        let (findings, history, truth) = Box::pin(self.finish(store, &CancellationToken::new())).await?;
        relay.kill9()?;
        Ok(Outcome {
            findings,
            words: history.explain(&truth, if findings.is_exact() { 0 } else { WORDS_MAX }),
            tally,
            relay_kills,
            failures: None,
        })
    }

    /// The topic of a run through a broker; it must be there.
    pub fn topic(&self) -> String {
        format!("verify-{}", self.workload.prefix)
    }

    fn publisher(&self) -> String {
        format!("{}publish", self.group())
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
        effects::count(db, &self.workload.prefix).await
    }

    /// All effects in the order they were recorded.
    async fn history(&self, db: &DatabaseConnection) -> Result<History> {
        let mut histories = effects::histories(db, &self.workload.prefix).await?;
        Ok(histories.remove(WHO).unwrap_or_default())
    }

    /// Forgets the routes and drops the tables of all runs. The relays must be gone.
    pub async fn remove(&self, store: &dyn Inspect) -> Result<()> {
        forget(store, &self.group()).await?;
        forget(store, &self.publisher()).await?;
        Workload::remove(store.db()).await?;
        effects::remove(store.db()).await
    }
}

/// Kills the relay and starts another, for this long; returns how often.
async fn kill_and_restart(
    relay: &mut Process,
    length: Duration,
    spawn: &(dyn Fn() -> Result<Process> + Sync),
    tell: &(dyn Fn(&str) + Sync),
) -> Result<u32> {
    let until = Instant::now() + length;
    let mut kills = 0;
    while Instant::now() < until {
        let left = until - Instant::now();
        tell(&format!("writing and killing, {} s to go", left.as_secs()));
        sleep(KILL_EVERY.min(left)).await;
        relay.kill9()?;
        *relay = spawn()?;
        kills += 1;
    }
    Ok(kills)
}

/// Connections for so many writers. SQLite's queue for the store's one.
pub async fn writers(url: &str, store: &dyn Inspect, count: u32) -> Result<DatabaseConnection> {
    if store.db().get_database_backend() == DbBackend::Sqlite {
        return Ok(store.db().clone());
    }
    let mut options = ConnectOptions::new(url);
    options.max_connections(count).sqlx_logging(false);
    Database::connect(options)
        .await
        .map_err(|source| Error::db("connect the writers", source))
}

/// Forgets a route as soon as no relay holds it.
pub(crate) async fn forget(store: &dyn Inspect, route: &str) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = postroom::operate::forget(store, route, "verify").await {
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
    journal: Option<Journal>,
}

impl BatchHandler for RecordEffects {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            changes.extend(Change::of(event)?.filter(|change| change.key.starts_with(&self.prefix)));
        }
        if let (Some(journal), Some(last)) = (&self.journal, changes.last()) {
            journal.works_on(Group::Natural, last);
        }
        Ok(effects::record(tx, WHO, &changes).await?)
    }
}
