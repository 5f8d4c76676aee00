#![doc = include_str!("../README.md")]

mod append;
mod connect;
mod error;
mod inspect;
mod migration;
mod permission;
mod prune;
mod pulse;
mod read;
mod schedule;
mod setting;

use async_trait::async_trait;
use postroom::{Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, SettingCheck};
use sea_orm::{DatabaseConnection, SqlxSqliteConnector};
use sqlx::{SqlitePool, Transaction};

pub use append::{append, emit};
pub use connect::pool_options;
pub use migration::MIGRATIONS;
pub use schedule::{cancel, emit_at, schedule};

/// A store in an SQLite file.
#[derive(Clone, Debug)]
pub struct Sqlite {
    /// Exactly one connection: the queue of this process's writers.
    writer: SqlitePool,
    /// Reading goes past the queue, so that a handler's long transaction delays no page.
    readers: SqlitePool,
    /// SeaORM over `writer`.
    db: DatabaseConnection,
}

impl Sqlite {
    /// Creates or updates Postroom's tables; answers which migrations were applied. Many processes may call it at once.
    pub async fn migrate(&self) -> Result<Vec<Migration>> {
        postroom::migration::up(&self.db, "postroom", MIGRATIONS).await
    }

    /// Opens the file, and creates it and its folder when they are missing. Tables come with
    /// [`postroom::migration::up`].
    ///
    /// Takes a path, or a URL (`sqlite://data/postroom.db`, `sqlite:///var/lib/postroom.db`). A committed event survives a
    /// power cut; with `?synchronous=normal` on a URL the last moments before one may be lost, never torn, and a
    /// commit is about twice as fast.
    pub async fn open(path_or_url: &str) -> Result<Self> {
        let (writer, readers) = connect::pools(path_or_url).await?;
        Ok(Self::from_pools(writer, readers))
    }

    /// Opens a file that is there for reading alone. Nothing of it changes, and a user who may only read it can do it.
    /// Writing through this store fails.
    pub async fn open_to_read(path_or_url: &str) -> Result<Self> {
        let readers = connect::readers_alone(path_or_url).await?;
        Ok(Self::from_pools(readers.clone(), readers))
    }

    /// A store over pools of the application's own, on the same file in WAL mode.
    ///
    /// Make both with [`pool_options`]; `writer` should have exactly one connection (`max_connections(1)`) and a busy
    /// timeout of some seconds.
    pub fn from_pools(writer: SqlitePool, readers: SqlitePool) -> Self {
        let db = SqlxSqliteConnector::from_sqlx_sqlite_pool(writer.clone());
        Self { writer, readers, db }
    }

    /// Begins a transaction for plain sqlx; [`append`] and [`emit`] take it. It has the write lock from the start
    /// (`begin immediate`): a transaction that reads first and writes later is refused whenever another has written
    /// in between, however long it would wait.
    pub async fn begin(&self) -> Result<Transaction<'static, sqlx::Sqlite>> {
        self.writer
            .begin_with("begin immediate")
            .await
            .map_err(error::while_doing("begin a transaction"))
    }

    /// Closes every connection; the log is folded into the file when no other process has it open.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl Outbox for Sqlite {
    fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    fn pool(&self, _connections_max: u32) -> DatabaseConnection {
        self.db.clone() // one writer at a time
    }

    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn pulse(&self) -> Result<Pulse> {
        pulse::pulse(&self.readers).await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        read::read(&self.readers, after, limit).await
    }

    async fn head(&self) -> Result<Position> {
        read::head(&self.readers).await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        prune::prune(&self.writer, prune).await
    }
}

#[async_trait]
impl Inspect for Sqlite {
    async fn version(&self) -> Result<String> {
        inspect::version(&self.readers).await
    }

    fn readers(&self, _connections_max: u32) -> DatabaseConnection {
        SqlxSqliteConnector::from_sqlx_sqlite_pool(self.readers.clone())
    }

    fn settings(&self) -> &'static [SettingCheck] {
        setting::SETTINGS
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        inspect::backlog(&self.readers, after).await
    }

    /// Always empty: SQLite keeps no list of transactions. One that stays open holds the write lock, and the others
    /// say so ("database is locked") after ten seconds.
    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        Ok(Vec::new())
    }
}
