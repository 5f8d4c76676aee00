//! The application's side of a bench: plain sqlx transactions on each database, as a user writes them who appends with the
//! store's own `append`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use postroom::{Event, Inspect};
use postroom_address::{StoreKind, StoreUrl};
use postroom_mysql::Mysql;
use postroom_postgres::Postgres;
use postroom_sqlite::Sqlite;
use sqlx::Transaction;
use time::{OffsetDateTime, PrimitiveDateTime};
use uuid::Uuid;

/// One statement in three dialects; parameters stand in the same order in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sql {
    pub(super) postgres: &'static str,
    pub(super) mysql: &'static str,
    pub(super) sqlite: &'static str,
}

impl Sql {
    /// The text for one database.
    pub(super) fn on(self, native: &Native) -> &'static str {
        match native {
            Native::Postgres(_) => self.postgres,
            Native::Mysql(_) => self.mysql,
            Native::Sqlite(_) => self.sqlite,
        }
    }
}

/// The files `sql/{name}.{database}.sql`.
macro_rules! sql {
    ($name:literal) => {
        $crate::native::Sql {
            postgres: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".postgres.sql")),
            mysql: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".mysql.sql")),
            sqlite: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sqlite.sql")),
        }
    };
}
pub(super) use sql;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(i64),
    Text(&'a str),
}

/// A store whose driver is known. The relay and the application share it, as they do in one process.
#[derive(Clone, Debug)]
pub enum Native {
    /// PostgreSQL.
    Postgres(Arc<Postgres>),
    /// MySQL or MariaDB.
    Mysql(Arc<Mysql>),
    /// SQLite.
    Sqlite(Arc<Sqlite>),
}

impl Native {
    /// Opens the store at this address with its driver.
    pub async fn open(url: &StoreUrl) -> Result<Self> {
        let address = url.address();
        let opened: postroom::Result<Self> = match url.kind() {
            StoreKind::Postgres => Postgres::connect(address)
                .await
                .map(|store| Self::Postgres(Arc::new(store))),
            StoreKind::Mysql => Mysql::connect(address).await.map(|store| Self::Mysql(Arc::new(store))),
            StoreKind::Sqlite => Sqlite::open(address).await.map(|store| Self::Sqlite(Arc::new(store))),
        };
        opened.with_context(|| format!("open the store {url}"))
    }

    /// The store as a port, for a relay.
    pub fn store(&self) -> Arc<dyn Inspect> {
        match self {
            Self::Postgres(store) => Arc::<Postgres>::clone(store),
            Self::Mysql(store) => Arc::<Mysql>::clone(store),
            Self::Sqlite(store) => Arc::<Sqlite>::clone(store),
        }
    }

    /// Begins a transaction of the application's.
    pub(super) async fn begin(&self) -> Result<Tx> {
        let begun = match self {
            Self::Postgres(store) => Tx::Postgres(store.pool().begin().await?),
            Self::Mysql(store) => Tx::Mysql(store.pool().begin().await?),
            Self::Sqlite(store) => Tx::Sqlite(store.begin().await?),
        };
        Ok(begun)
    }
}

/// A transaction of the application's.
#[derive(Debug)]
pub(super) enum Tx {
    Postgres(Transaction<'static, sqlx::Postgres>),
    Mysql(Transaction<'static, sqlx::MySql>),
    Sqlite(Transaction<'static, sqlx::Sqlite>),
}

/// The same text for three drivers, whose types have nothing in common.
macro_rules! execute {
    ($tx:expr, $sql:expr, $values:expr) => {{
        let mut query = sqlx::query($sql);
        for value in $values {
            query = match *value {
                Value::Number(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
            };
        }
        query.execute(&mut **$tx).await?.rows_affected()
    }};
}

impl Tx {
    /// Executes one prepared statement; answers how many rows it touched.
    pub(super) async fn execute(&mut self, sql: Sql, values: &[Value<'_>]) -> Result<u64> {
        Ok(match self {
            Self::Postgres(tx) => execute!(tx, sql.postgres, values),
            Self::Mysql(tx) => execute!(tx, sql.mysql, values),
            Self::Sqlite(tx) => execute!(tx, sql.sqlite, values),
        })
    }

    /// Appends through the store's own function.
    pub(super) async fn append(&mut self, events: &[Event]) -> Result<()> {
        match self {
            Self::Postgres(tx) => postroom_postgres::append(tx, events).await?,
            Self::Mysql(tx) => postroom_mysql::append(tx, events).await?,
            Self::Sqlite(tx) => postroom_sqlite::append(tx, events).await?,
        }
        Ok(())
    }

    /// Reads one page of the log behind `after` and decodes every column; answers how many rows, and the last id.
    pub(super) async fn page(&mut self, sql: Sql, after: i64, limit: i64) -> Result<(usize, i64)> {
        let (count, last) = match self {
            Self::Postgres(tx) => {
                let rows: Vec<Row<Uuid, OffsetDateTime>> = sqlx::query_as(sql.postgres)
                    .bind(after)
                    .bind(limit)
                    .fetch_all(&mut **tx)
                    .await?;
                (rows.len(), rows.last().map(|row| row.0))
            }
            Self::Mysql(tx) => {
                let rows: Vec<Row<String, PrimitiveDateTime>> = sqlx::query_as(sql.mysql)
                    .bind(after)
                    .bind(limit)
                    .fetch_all(&mut **tx)
                    .await?;
                (rows.len(), rows.last().map(|row| row.0))
            }
            Self::Sqlite(tx) => {
                let rows: Vec<Row<String, String>> = sqlx::query_as(sql.sqlite)
                    .bind(after)
                    .bind(limit)
                    .fetch_all(&mut **tx)
                    .await?;
                (rows.len(), rows.last().map(|row| row.0))
            }
        };
        Ok((count, last.unwrap_or(after)))
    }

    pub(super) async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(tx) => tx.commit().await?,
            Self::Mysql(tx) => tx.commit().await?,
            Self::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

/// An entry's columns as the driver decodes them.
type Row<Id, Time> = (i64, Id, String, String, String, String, String, String, Time, Time);
