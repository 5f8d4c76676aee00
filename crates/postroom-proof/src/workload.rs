//! Randomized writers, the same on every database: the traffic under which a reader must stay exact.
//!
//! Every transaction counts up an aggregate's version *first*, which locks it, and emits one event per version; so the
//! aggregates themselves say in the end what was committed. The rest is malice: transactions that wrote
//! elsewhere before, commits that come late, rollbacks, savepoints, two aggregates in any order (deadlocks).

mod plan;

use std::time::Duration;

use postroom::{DomainEvent, Error, ErrorKind, Event, Result, Transaction, table};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sea_orm::sea_query::{Alias, ColumnDef, Expr, ExprTrait, Query, Table};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, IsolationLevel, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::plan::{Plan, Savepoint, millis};
use crate::history::Truth;

const AGGREGATE: &str = "verify_aggregate";
const ELSEWHERE: &str = "verify_elsewhere";

/// A writer that has failed for this long gives up: its database is gone for good, or the workload is wrong.
const FAILING_MAX: Duration = Duration::from_secs(120);

/// The event of the workload: `key` has become version `ver`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The aggregate.
    pub key: String,
    /// Its new version.
    pub ver: u32,
}

impl DomainEvent for Change {
    const TYPE: &'static str = "postroom.verify.changed.v1";
    const AGGREGATE_TYPE: &'static str = "verify";

    fn aggregate_id(&self) -> String {
        self.key.clone()
    }
}

impl Change {
    /// The change an event reports; `None` when it is somebody else's event.
    pub fn of(event: &Event) -> Result<Option<Self>> {
        if event.event_type == Self::TYPE {
            event.decode().map(Some)
        } else {
            Ok(None)
        }
    }
}

/// How hard, and on what.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The names of this run's aggregates begin with it. Use a new one for each run on a database.
    pub prefix: String,
    /// How many write at once; each needs a connection.
    pub writers: u32,
    /// How many aggregates there are. Four of ten transactions go to one in 32 of them.
    pub keys: u32,
    /// The same seed draws the same transactions.
    pub seed: u64,
}

/// The transactions of the writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Transactions committed.
    pub commits: u64,
    /// Rolled back on purpose.
    pub rollbacks: u64,
    /// Savepoints rolled back on purpose.
    pub savepoint_rollbacks: u64,
    /// Ended by the database: deadlocks, conflicts, lost connections.
    pub aborts: u64,
}

impl Tally {
    /// Adds what others did.
    pub fn add(&mut self, other: Self) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.savepoint_rollbacks += other.savepoint_rollbacks;
        self.aborts += other.aborts;
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            prefix: "k".to_owned(),
            writers: 16,
            keys: 512,
            seed: 1,
        }
    }
}

impl Workload {
    /// Makes the tables, if they are not there, and this run's aggregates at version 0.
    pub async fn prepare(&self, db: &DatabaseConnection) -> Result<()> {
        let doing = |source| Error::db("prepare the tables of the workload", source);
        let tx = table::begin(db).await?; // behind a pooler only a transaction has committed when it says so
        for (table, key, count) in [(AGGREGATE, "key", "ver"), (ELSEWHERE, "writer", "count")] {
            let mut create = Table::create();
            create
                .table(Alias::new(table))
                .if_not_exists()
                .col(ColumnDef::new(Alias::new(key)).string_len(100).not_null().primary_key())
                .col(ColumnDef::new(Alias::new(count)).big_integer().not_null());
            tx.execute(&create).await.map_err(doing)?;
        }
        for (table, key, count, names) in [
            (
                AGGREGATE,
                "key",
                "ver",
                (0..self.keys).map(|key| self.key(key)).collect::<Vec<_>>(),
            ),
            (
                ELSEWHERE,
                "writer",
                "count",
                (0..self.writers).map(|writer| self.key(writer)).collect(),
            ),
        ] {
            let mut insert = Query::insert();
            insert
                .into_table(Alias::new(table))
                .columns([key, count].map(Alias::new));
            for name in names {
                insert.values_panic([name.into(), 0_i64.into()]);
            }
            tx.execute(&insert).await.map_err(doing)?;
        }
        tx.commit().await
    }

    /// Writes until `stop`; a transaction that has begun ends as it was drawn, which may take two seconds.
    pub async fn run(&self, db: &DatabaseConnection, stop: &CancellationToken) -> Result<Tally> {
        let mut writers = JoinSet::new();
        for number in 0..self.writers {
            let writer = Writer {
                workload: self.clone(),
                number,
                rng: StdRng::seed_from_u64(self.seed.wrapping_mul(1_000).wrapping_add(u64::from(number))),
                tally: Tally::default(),
            };
            writers.spawn(writer.run(db.clone(), stop.clone()));
        }
        let mut total = Tally::default();
        while let Some(ended) = writers.join_next().await {
            let tally = ended.map_err(|source| Error::caused(ErrorKind::Failed, "a writer panicked", source))??;
            total.add(tally);
        }
        Ok(total)
    }

    /// The committed events. Final once [`Workload::run`] has returned.
    pub async fn truth(&self, db: &DatabaseConnection) -> Result<Truth> {
        let mut select = Query::select();
        select
            .columns(["key", "ver"].map(Alias::new))
            .from(Alias::new(AGGREGATE));
        let rows = db
            .query_all(&select)
            .await
            .map_err(|source| Error::db("read what was committed", source))?;
        let mut truth = Truth::new();
        for row in rows {
            let key: String = row.try_get("", "key")?;
            if key.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('-')) {
                let version: i64 = row.try_get("", "ver")?;
                truth.insert(key, u32::try_from(version).unwrap_or(u32::MAX));
            }
        }
        Ok(truth)
    }

    /// Drops the tables of all runs.
    pub async fn remove(db: &DatabaseConnection) -> Result<()> {
        for table in [AGGREGATE, ELSEWHERE] {
            let mut drop = Table::drop();
            drop.table(Alias::new(table)).if_exists();
            db.execute(&drop)
                .await
                .map_err(|source| Error::db("drop the tables of the workload", source))?;
        }
        Ok(())
    }

    /// Takes the lock that serialises the writers of an aggregate, and moves it on by one version.
    pub async fn lock(&self, tx: &impl Transaction, key: u32) -> Result<u32> {
        count_up(tx, &self.key(key), 1).await
    }

    /// Writes something that has nothing to do with any aggregate.
    pub async fn write_elsewhere(&self, tx: &impl Transaction, writer: u32) -> Result<()> {
        let mut update = Query::update();
        update
            .table(Alias::new(ELSEWHERE))
            .value(Alias::new("count"), Expr::col(Alias::new("count")).add(1))
            .and_where(Expr::col(Alias::new("writer")).eq(self.key(writer)));
        tx.execute(&update).await?;
        Ok(())
    }

    /// Adds an aggregate at version 1.
    pub(crate) async fn add_key(&self, tx: &impl Transaction, key: &str) -> Result<()> {
        let mut insert = Query::insert();
        insert
            .into_table(Alias::new(AGGREGATE))
            .columns(["key", "ver"].map(Alias::new))
            .values_panic([key.into(), 1_i64.into()]);
        tx.execute(&insert).await?;
        Ok(())
    }

    /// Takes an aggregate away, as if it had never been.
    pub(crate) async fn remove_key(&self, tx: &impl Transaction, key: &str) -> Result<()> {
        let mut delete = Query::delete();
        delete
            .from_table(Alias::new(AGGREGATE))
            .and_where(Expr::col(Alias::new("key")).eq(key));
        tx.execute(&delete).await?;
        Ok(())
    }

    pub(crate) fn key(&self, number: u32) -> String {
        format!("{}-{number}", self.prefix)
    }
}

struct Writer {
    workload: Workload,
    number: u32,
    rng: StdRng,
    tally: Tally,
}

impl Writer {
    async fn run(mut self, db: DatabaseConnection, stop: CancellationToken) -> Result<Tally> {
        let mut good_at = Instant::now();
        while !stop.is_cancelled() {
            let plan = Plan::draw(&mut self.rng, self.workload.keys);
            match self.perform(&db, &plan).await {
                Ok(()) => good_at = Instant::now(),
                Err(error) if good_at.elapsed() > FAILING_MAX => return Err(error),
                Err(error) => {
                    tracing::debug!(
                        writer = self.number,
                        error = error.report(),
                        "a writer's transaction was aborted"
                    );
                    self.tally.aborts += 1;
                    // The next plan is drawn anew: a retry need not repeat the same transaction.
                    let pause = millis(&mut self.rng, 20);
                    stop.run_until_cancelled(sleep(pause)).await;
                }
            }
        }
        Ok(self.tally)
    }

    async fn perform(&mut self, db: &DatabaseConnection, plan: &Plan) -> Result<()> {
        let tx = begin(db, plan.is_repeatable_read).await?;
        let written = self.write(&tx, plan).await;
        if written.is_err() || plan.is_rolled_back {
            tx.rollback().await?;
            written?;
            self.tally.rollbacks += 1;
        } else {
            tx.commit().await?;
            self.tally.commits += 1;
        }
        Ok(())
    }

    async fn write(&mut self, tx: &DatabaseTransaction, plan: &Plan) -> Result<()> {
        if plan.is_elsewhere_first {
            self.workload.write_elsewhere(tx, self.number).await?;
            sleep(plan.pause).await;
        }
        for (key, events) in &plan.steps {
            self.change(tx, *key, *events).await?;
        }
        if let (Some(savepoint), Some((key, _))) = (plan.savepoint, plan.steps.first()) {
            let inner = tx.begin().await?;
            self.change(&inner, *key, 1).await?;
            match savepoint {
                Savepoint::Released => inner.commit().await?,
                Savepoint::RolledBack => {
                    inner.rollback().await?;
                    self.tally.savepoint_rollbacks += 1;
                    // The next event takes the version that was given back.
                    self.change(tx, *key, 1).await?;
                }
            }
        }
        sleep(plan.late).await;
        Ok(())
    }

    /// Moves an aggregate on by `events` versions and emits one event for each.
    async fn change(&self, tx: &impl Transaction, key: u32, events: u32) -> Result<()> {
        let key = self.workload.key(key);
        let newest = count_up(tx, &key, events).await?;
        let events: Vec<Event> = (newest - events + 1..=newest)
            .map(|ver| Event::of(&Change { key: key.clone(), ver }))
            .collect::<Result<_>>()?;
        postroom::append(tx, &events).await
    }
}

/// Locks the aggregate and moves it on; answers its new version.
async fn count_up(tx: &impl Transaction, key: &str, by: u32) -> Result<u32> {
    let mut update = Query::update();
    update
        .table(Alias::new(AGGREGATE))
        .value(Alias::new("ver"), Expr::col(Alias::new("ver")).add(i64::from(by)))
        .and_where(Expr::col(Alias::new("key")).eq(key));
    tx.execute(&update).await?;
    let mut select = Query::select();
    select
        .column(Alias::new("ver"))
        .from(Alias::new(AGGREGATE))
        .and_where(Expr::col(Alias::new("key")).eq(key));
    let row = tx.query_one(&select).await?;
    let row = row.ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("no aggregate {key}; call Workload::prepare first"),
        )
    })?;
    let version: i64 = row.try_get("", "ver")?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Begins a transaction of an application on SeaORM.
async fn begin(db: &DatabaseConnection, is_repeatable_read: bool) -> Result<DatabaseTransaction> {
    let mut options = TransactionOptions::default();
    match db.get_database_backend() {
        DbBackend::Sqlite => options.sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate),
        _ if is_repeatable_read => options.isolation_level = Some(IsolationLevel::RepeatableRead),
        DbBackend::MySql => options.isolation_level = Some(IsolationLevel::ReadCommitted),
        _ => {}
    }
    Ok(db.begin_with_options(options).await?)
}
