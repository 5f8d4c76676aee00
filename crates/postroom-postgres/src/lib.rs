#![doc = include_str!("../README.md")]

mod append;
mod connect;
mod error;
mod inspect;
mod migration;
mod prune;
mod pulse;
mod read;
mod rebase;
mod schedule;
mod setting;

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use postroom::{
    Entry, Hidden, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, SettingCheck,
    with_timeout,
};
use sea_orm::{DatabaseConnection, SqlxPostgresConnector};
use sqlx::pool::PoolConnection;
use sqlx::{Executor, PgPool};

pub use append::{append, emit};
pub use migration::MIGRATIONS;
pub use schedule::{cancel, emit_at, schedule};

use connect::Pools;
use error::driver;
use read::PageRows;

/// The store on PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    db: DatabaseConnection,
    pools: Pools,
    page_rows: PageRows,
    pruned_to: AtomicI64,
}

impl Postgres {
    /// Creates or updates Postroom's tables; answers which migrations were applied. Many processes may call it at once.
    pub async fn migrate(&self) -> Result<Vec<Migration>> {
        postroom::migration::up(&self.db, "postroom", MIGRATIONS).await
    }

    /// Connects, for example to `postgres://app@127.0.0.1/app`. Migrates nothing.
    ///
    /// Behind `PgBouncer` or another pooler in transaction mode add `pooler=transaction` to the address. Every use of a
    /// connection is then one transaction, also of those that [`Outbox::db`] hands out: what is executed there without
    /// a transaction commits when its connection goes back.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self::over(Pools::connect(url).await?))
    }

    /// The store over a pool that is already there, straight to the server. A relay and its readers open connections of their
    /// own with the pool's connect options; hooks of the pool (`after_connect` and the like) do not run on them.
    pub fn from_pool(pool: PgPool) -> Self {
        Self::over(Pools::beside(pool))
    }

    /// The pool that [`Outbox::db`] works on.
    pub fn pool(&self) -> &PgPool {
        &self.pools.main
    }

    fn over(pools: Pools) -> Self {
        Self {
            db: SqlxPostgresConnector::from_sqlx_postgres_pool(pools.main.clone()),
            pools,
            page_rows: PageRows::default(),
            pruned_to: AtomicI64::new(0),
        }
    }

    /// A connection of the reader's, with its plans.
    async fn reader(&self) -> Result<PoolConnection<sqlx::Postgres>> {
        self.pools
            .reader
            .acquire()
            .await
            .map_err(|source| driver("connect to PostgreSQL", source))
    }

    /// Makes what was done on a connection last. Without a pooler each statement has committed already.
    async fn end(&self, mut connection: PoolConnection<sqlx::Postgres>) -> Result<()> {
        if self.pools.is_pooled {
            connection
                .execute("commit")
                .await
                .map_err(|source| driver("commit", source))?;
        }
        Ok(())
    }

    /// Up to here the log is empty and stays so.
    fn pruned_to(&self) -> i64 {
        self.pruned_to.load(Ordering::Relaxed)
    }

    fn remember_pruned(&self, low: Option<i64>) {
        self.pruned_to.fetch_max(low.unwrap_or(0), Ordering::Relaxed);
    }

    fn forget_pruned(&self) {
        self.pruned_to.store(0, Ordering::Relaxed);
    }
}

#[async_trait]
impl Outbox for Postgres {
    fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        SqlxPostgresConnector::from_sqlx_postgres_pool(self.pools.another(connections_max))
    }

    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn pulse(&self) -> Result<Pulse> {
        with_timeout(pulse::pulse(self)).await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        with_timeout(read::read(self, after, limit)).await
    }

    async fn head(&self) -> Result<Position> {
        with_timeout(read::head(self)).await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        with_timeout(prune::prune(self, prune)).await
    }
}

#[async_trait]
impl Inspect for Postgres {
    async fn version(&self) -> Result<String> {
        with_timeout(inspect::version(self)).await
    }

    fn settings(&self) -> &'static [SettingCheck] {
        setting::SETTINGS
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        with_timeout(inspect::backlog(self, after)).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        with_timeout(inspect::open_transactions(self)).await
    }

    async fn not_yet_readable(&self, limit: usize) -> Result<Vec<Entry>> {
        with_timeout(inspect::not_yet_readable(self, limit)).await
    }

    async fn hidden(&self) -> Result<Option<Hidden>> {
        with_timeout(inspect::hidden(self)).await
    }
}
