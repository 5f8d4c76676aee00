//! Postroom's store on MySQL (8.0.19 or newer) and MariaDB (10.10 or newer).
//!
//! Writers insert into `postroom_incoming`; one process at a time, the sequencer, moves what has been committed into
//! the append-only log `postroom_outbox` and numbers it there without gaps. Why that is exact, and which simpler ways
//! are not, is argued in `sql/look.sql`, `sql/look_again.sql` and `sql/read.sql`.
//!
//! The server must run with `innodb_flush_log_at_trx_commit = 1` (the default), and if it writes a binary log, with
//! `binlog_format` `row` or `mixed`; then the migrating user also needs `log_bin_trust_function_creators` for the
//! triggers. One node takes the writes: with several (Galera, Group Replication) ids do not follow row locks.

mod append;
mod error;
mod inspect;
mod migration;
mod prune;
mod pulse;
mod read;
mod sequence;
mod step;

use std::str::FromStr as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{
    Error, ErrorKind, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, answered,
};
use sea_orm::{DatabaseConnection, SqlxMySqlConnector};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use append::{append, emit};
pub use migration::MIGRATIONS;

use crate::sequence::Sequencer;

/// How long a pooled connection may have rested before it is tried out when it is taken again. Below that a server
/// that went away costs one error, and a pulse costs one round trip.
const REST_MAX: Duration = Duration::from_secs(1);

/// How long a call waits for a connection before it says that the database is away.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);

/// The store on MySQL or MariaDB.
#[derive(Debug)]
pub struct Mysql {
    pool: MySqlPool,
    /// Connections of the platform's own: their sessions have limits that would end an application's transactions.
    db: DatabaseConnection,
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
    /// Connects to `mysql://user:password@host:port/database`. Does not migrate.
    pub async fn connect(url: &str) -> Result<Self> {
        let options =
            MySqlConnectOptions::from_str(url).map_err(|source| error::db("read the address of MySQL", source))?;
        knock(&options).await?;
        let pool = MySqlPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(ACQUIRE_MAX)
            .test_before_acquire(false)
            .before_acquire(|connection, rest| {
                Box::pin(async move {
                    if rest.idle_for > REST_MAX {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_with(options)
            .await
            .map_err(|source| error::db("connect to MySQL", source))?;
        Ok(Self::from_pool(pool))
    }

    /// Works on a pool that is already there, and opens connections of its own with the pool's options: at most as many again,
    /// and one for the sequencer.
    pub fn from_pool(pool: MySqlPool) -> Self {
        let own = pool
            .options()
            .clone()
            .min_connections(0)
            .connect_lazy_with((*pool.connect_options()).clone());
        Self {
            db: SqlxMySqlConnector::from_sqlx_mysql_pool(own),
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

    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn pulse(&self) -> Result<Pulse> {
        answered(self.beat()).await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        answered(self.page(after, limit)).await
    }

    async fn head(&self) -> Result<Position> {
        answered(self.end()).await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.remove(prune).await // not cut off: its BEGIN would leave a transaction open
    }
}

#[async_trait]
impl Inspect for Mysql {
    async fn backlog(&self, after: Position) -> Result<u64> {
        answered(self.count_behind(after)).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        answered(self.list_open()).await
    }
}

/// Whether somebody is there. A pool asks again and again until its time is over, and then says that its time is over. What
/// passes, such as a server that has too many connections, it may go on waiting for.
async fn knock(options: &MySqlConnectOptions) -> Result<()> {
    let waited = || format!("connect to MySQL: no answer within {} s", ACQUIRE_MAX.as_secs());
    let answer = tokio::time::timeout(ACQUIRE_MAX, options.connect())
        .await
        .map_err(|late| Error::caused(ErrorKind::Unavailable, waited(), late))?;
    match answer {
        Err(source @ sqlx::Error::Io(_)) => Err(error::db("connect to MySQL", source)),
        Ok(connection) => connection
            .close()
            .await
            .map_err(|source| error::db("connect to MySQL", source)),
        Err(_) => Ok(()),
    }
}
