#![doc = include_str!("../README.md")]

mod append;
mod connect;
mod error;
mod inspect;
mod migration;
mod prune;
mod pulse;
mod read;
mod schedule;
mod sequence;
mod setting;
mod step;

use std::str::FromStr as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use async_trait::async_trait;
use postroom::{
    Entry, Hidden, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, SettingCheck,
    with_timeout,
};
use sea_orm::{DatabaseConnection, SqlxMySqlConnector};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use append::{append, emit};
pub use migration::MIGRATIONS;
pub use schedule::{cancel, emit_at, schedule};

use crate::sequence::Sequencer;

const CONNECTIONS_MAX: u32 = 16;
/// Readers take turns in milliseconds; few of them serve many routes.
const READERS_MAX: u32 = 4;

/// The store on MySQL or MariaDB.
#[derive(Debug)]
pub struct Mysql {
    pool: MySqlPool,
    /// Connections of the platform's own: their sessions have limits that would end an application's transactions.
    db: DatabaseConnection,
    /// For reading and pulses.
    reader: MySqlPool,
    /// For retention: a BEGIN that was given up may leave its connection inside a transaction, which no reader must meet.
    retention: MySqlPool,
    /// The last number of the log that is known to be on disk.
    durable: AtomicI64,
    /// How many rows of the size last seen make a page.
    page_rows: AtomicUsize,
    /// Numbers what has been committed, while this store holds the lease.
    sequencer: Mutex<Sequencer>,
    /// When open transactions were last listed.
    listed_at: Mutex<Option<Instant>>,
}

impl Mysql {
    /// Creates or updates Postroom's tables; answers which migrations were applied. Many processes may call it at once.
    pub async fn migrate(&self) -> Result<Vec<Migration>> {
        postroom::migration::up(&self.db, "postroom", MIGRATIONS).await
    }

    /// Connects to `mysql://user:password@host:port/database`. Does not migrate.
    pub async fn connect(url: &str) -> Result<Self> {
        let options =
            MySqlConnectOptions::from_str(url).map_err(|source| error::db("read the address of MySQL", source))?;
        Ok(Self::from_pool(connect::connect(CONNECTIONS_MAX, options).await?))
    }

    /// Works on a pool that is already there, and opens connections of its own with the pool's connect options; hooks of the
    /// pool (`after_connect` and the like) do not run on them.
    pub fn from_pool(pool: MySqlPool) -> Self {
        let own = |connections_max| connect::beside(&pool, connections_max);
        Self {
            db: SqlxMySqlConnector::from_sqlx_mysql_pool(own(CONNECTIONS_MAX)),
            reader: own(READERS_MAX),
            retention: own(1),
            pool,
            durable: AtomicI64::new(0),
            page_rows: AtomicUsize::new(usize::MAX),
            sequencer: Mutex::default(),
            listed_at: Mutex::default(),
        }
    }

    /// The pool, for an application's own queries.
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// The last number known to be on disk.
    fn durable(&self) -> i64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Remembers that everything up to `seq` is on disk.
    fn learn(&self, seq: i64) -> i64 {
        self.durable.fetch_max(seq, Ordering::AcqRel).max(seq)
    }
}

#[async_trait]
impl Outbox for Mysql {
    fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        SqlxMySqlConnector::from_sqlx_mysql_pool(connect::beside(&self.pool, connections_max))
    }

    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn pulse(&self) -> Result<Pulse> {
        with_timeout(self.beat()).await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        with_timeout(self.page(after, limit)).await
    }

    async fn head(&self) -> Result<Position> {
        with_timeout(self.end()).await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.remove(prune).await
    }
}

#[async_trait]
impl Inspect for Mysql {
    async fn version(&self) -> Result<String> {
        with_timeout(self.read_version()).await
    }

    fn settings(&self) -> &'static [SettingCheck] {
        setting::SETTINGS
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        with_timeout(self.count_behind(after)).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        with_timeout(self.list_open()).await
    }

    async fn not_yet_readable(&self, limit: usize) -> Result<Vec<Entry>> {
        with_timeout(self.list_unnumbered(limit)).await
    }

    async fn hidden(&self) -> Result<Option<Hidden>> {
        with_timeout(self.list_hidden()).await
    }
}
