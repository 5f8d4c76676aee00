//! The transaction of a handler, and of everything that Postroom writes itself.
//!
//! [`Tx`] wraps a connection of the driver's with an open transaction. A handler on plain sqlx takes the connection out of it; code that runs on every
//! database uses it as a SeaORM connection. How a transaction begins on each database is in `table`.

#![cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    expect(
        dead_code,
        unused_variables,
        reason = "a build without any database begins no transaction"
    )
)]

use std::fmt;

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, RuntimeErr,
    Statement,
};
use sea_query_sqlx::SqlxValues;
use sqlx::{AssertSqlSafe, Database, Executor, IntoArguments, SqlSafeStr as _, SqlStr};
use tokio::sync::Mutex;

use super::begun::Begun;
use crate::error::{Error, Result};

/// An open transaction on the store's database.
///
/// Everything that is written through it commits together, or not at all. A transaction that is dropped rolls back.
///
/// ```
/// # #[cfg(feature = "postgres")]
/// async fn count_event(tx: &mut postroom::Tx, event: &postroom::Event) -> postroom::Result<()> {
///     sqlx::query("update counts set total = total + 1 where type = $1")
///         .bind(&event.event_type)
///         .execute(tx.postgres()?)
///         .await?;
///     Ok(())
/// }
/// ```
pub struct Tx {
    backend: DbBackend,
    /// `&mut Tx` does not lock the mutex. SeaORM's trait takes `&self`, and needs it.
    connection: Mutex<Connection>,
}

/// The connection with the open transaction.
enum Connection {
    #[cfg(feature = "postgres")]
    Postgres(Begun<sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    Mysql(Begun<sqlx::MySql>),
    #[cfg(feature = "sqlite")]
    Sqlite(Begun<sqlx::Sqlite>),
    /// A build without any database, which begins none.
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
    None,
}

impl Connection {
    async fn begin(db: &DatabaseConnection, statement: SqlStr) -> Result<Self, DbErr> {
        match db.get_database_backend() {
            #[cfg(feature = "postgres")]
            DbBackend::Postgres => {
                let connection = db.get_postgres_connection_pool().acquire().await;
                let begun = Begun::begin(connection.map_err(connect_error)?, statement).await;
                begun.map(Self::Postgres).map_err(begin_error)
            }
            #[cfg(feature = "mysql")]
            DbBackend::MySql => {
                let connection = db.get_mysql_connection_pool().acquire().await;
                let begun = Begun::begin(connection.map_err(connect_error)?, statement).await;
                begun.map(Self::Mysql).map_err(begin_error)
            }
            #[cfg(feature = "sqlite")]
            DbBackend::Sqlite => {
                let connection = db.get_sqlite_connection_pool().acquire().await;
                let begun = Begun::begin(connection.map_err(connect_error)?, statement).await;
                begun.map(Self::Sqlite).map_err(begin_error)
            }
            other => {
                let says = format!("{}: postroom was built without {other:?}", statement.as_str());
                Err(query_error(sqlx::Error::Configuration(says.into())))
            }
        }
    }
}

/// Runs the same code on the transaction of each driver.
macro_rules! on_driver {
    ($connection:expr, $tx:ident => $work:expr) => {
        match $connection {
            #[cfg(feature = "postgres")]
            Connection::Postgres($tx) => $work,
            #[cfg(feature = "mysql")]
            Connection::Mysql($tx) => $work,
            #[cfg(feature = "sqlite")]
            Connection::Sqlite($tx) => $work,
            #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
            Connection::None => Err(sqlx::Error::PoolClosed),
        }
    };
}

/// The driver's futures are boxed: those that hold them would be too deep for the compiler.
impl Tx {
    /// Begins a transaction with the database's own statement, or with `statement`.
    pub(crate) async fn begin(db: &DatabaseConnection, statement: Option<String>) -> Result<Self> {
        let backend = db.get_database_backend();
        let statement = statement.map_or(SqlStr::from_static("begin"), |sql| AssertSqlSafe(sql).into_sql_str());
        let connection = Box::pin(Connection::begin(db, statement)).await;
        Ok(Self {
            backend,
            connection: Mutex::new(connection.map_err(|source| Error::db("begin a transaction", source))?),
        })
    }
    /// The connection of a transaction on PostgreSQL, for plain sqlx.
    #[cfg(feature = "postgres")]
    pub fn postgres(&mut self) -> Result<&mut sqlx::PgConnection> {
        match (self.backend, self.connection.get_mut()) {
            (_, Connection::Postgres(tx)) => Ok(tx.connection()),
            #[cfg(any(feature = "mysql", feature = "sqlite"))]
            (found, _) => Err(other_database("postgres", found)),
        }
    }

    /// The connection of a transaction on MySQL or MariaDB, for plain sqlx.
    #[cfg(feature = "mysql")]
    pub fn mysql(&mut self) -> Result<&mut sqlx::MySqlConnection> {
        match (self.backend, self.connection.get_mut()) {
            (_, Connection::Mysql(tx)) => Ok(tx.connection()),
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            (found, _) => Err(other_database("mysql", found)),
        }
    }

    /// The connection of a transaction on SQLite, for plain sqlx.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(&mut self) -> Result<&mut sqlx::SqliteConnection> {
        match (self.backend, self.connection.get_mut()) {
            (_, Connection::Sqlite(tx)) => Ok(tx.connection()),
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            (found, _) => Err(other_database("sqlite", found)),
        }
    }

    /// Commits.
    pub async fn commit(self) -> Result<()> {
        let committed: sqlx::Result<()> = on_driver!(self.connection.into_inner(), tx => Box::pin(tx.commit()).await);
        committed.map_err(|source| Error::db("commit a transaction", query_error(source)))
    }

    /// Rolls back. A dropped transaction rolls back too, when its connection is used next.
    pub async fn rollback(self) -> Result<()> {
        let rolled_back: sqlx::Result<()> =
            on_driver!(self.connection.into_inner(), tx => Box::pin(tx.rollback()).await);
        rolled_back.map_err(|source| Error::db("roll back a transaction", query_error(source)))
    }

    /// Begins a part of the transaction that can be rolled back alone. The driver does not count it: whatever is open ends with
    /// the transaction.
    pub(crate) async fn begin_part(&self) -> Result<(), DbErr> {
        self.execute_unprepared("savepoint postroom").await.map(drop)
    }

    /// Keeps what was written since [`Tx::begin_part`].
    pub(crate) async fn keep_part(&self) -> Result<(), DbErr> {
        self.execute_unprepared("release savepoint postroom").await.map(drop)
    }

    /// Takes back what was written since [`Tx::begin_part`].
    pub(crate) async fn undo_part(&self) -> Result<(), DbErr> {
        self.execute_unprepared("rollback to savepoint postroom")
            .await
            .map(drop)
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx")
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// Where events can be emitted: a [`Tx`], or a transaction of SeaORM's own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that `postroom::emit` can use",
    note = "for a transaction of sqlx, use `emit` of the store crate, for example `postroom_postgres::emit`"
)]
pub trait Transaction: ConnectionTrait + private::Sealed {}

impl Transaction for Tx {}
impl Transaction for DatabaseTransaction {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Tx {}
    impl Sealed for super::DatabaseTransaction {}
}

#[async_trait]
impl ConnectionTrait for Tx {
    fn get_database_backend(&self) -> DbBackend {
        self.backend
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let done: sqlx::Result<ExecResult> =
            on_driver!(&mut *self.connection.lock().await, tx => execute(tx, statement).await);
        done.map_err(exec_error)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        let done: sqlx::Result<ExecResult> =
            on_driver!(&mut *self.connection.lock().await, tx => execute_text(tx, sql).await);
        done.map_err(exec_error)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let row: sqlx::Result<Option<QueryResult>> =
            on_driver!(&mut *self.connection.lock().await, tx => query_one(tx, statement).await);
        row.map_err(query_error)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let rows: sqlx::Result<Vec<QueryResult>> =
            on_driver!(&mut *self.connection.lock().await, tx => query_all(tx, statement).await);
        rows.map_err(query_error)
    }
}

async fn execute<DB>(tx: &mut Begun<DB>, statement: Statement) -> sqlx::Result<ExecResult>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    SqlxValues: IntoArguments<DB>,
    ExecResult: From<DB::QueryResult>,
{
    prepare(statement).execute(tx.connection()).await.map(ExecResult::from)
}

async fn execute_text<DB>(tx: &mut Begun<DB>, sql: String) -> sqlx::Result<ExecResult>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    ExecResult: From<DB::QueryResult>,
{
    tx.connection().execute(AssertSqlSafe(sql)).await.map(ExecResult::from)
}

async fn query_one<DB>(tx: &mut Begun<DB>, statement: Statement) -> sqlx::Result<Option<QueryResult>>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    SqlxValues: IntoArguments<DB>,
    QueryResult: From<DB::Row>,
{
    let row = prepare(statement).fetch_optional(tx.connection()).await;
    row.map(|row| row.map(QueryResult::from))
}

async fn query_all<DB>(tx: &mut Begun<DB>, statement: Statement) -> sqlx::Result<Vec<QueryResult>>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    SqlxValues: IntoArguments<DB>,
    QueryResult: From<DB::Row>,
{
    let rows = prepare(statement).fetch_all(tx.connection()).await;
    rows.map(|rows| rows.into_iter().map(QueryResult::from).collect())
}

/// The text is safe: SeaQuery made it and binds every value, or a constant of the program is it.
fn prepare<DB>(statement: Statement) -> sqlx::query::Query<'static, DB, SqlxValues>
where
    DB: Database,
    SqlxValues: IntoArguments<DB>,
{
    let values = statement.values.unwrap_or_else(|| sea_orm::Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values))
}

/// The error of a pool that hands out no connection: the database is unavailable now.
fn connect_error(source: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(source.into()))
}

fn begin_error(source: sqlx::Error) -> DbErr {
    match source {
        sqlx::Error::BeginFailed => connect_error(source),
        _ => query_error(source),
    }
}

fn query_error(source: sqlx::Error) -> DbErr {
    DbErr::Query(RuntimeErr::SqlxError(source.into()))
}

fn exec_error(source: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(source.into()))
}

/// A handler asks for the connection of a database that the store is not on.
#[cfg(any(
    all(feature = "postgres", feature = "mysql"),
    all(feature = "postgres", feature = "sqlite"),
    all(feature = "mysql", feature = "sqlite"),
))]
fn other_database(wanted: &str, found: DbBackend) -> Error {
    let found = format!("{found:?}").to_lowercase();
    Error::new(
        crate::error::ErrorKind::Unsupported,
        format!("tx.{wanted}() on a transaction of {found}: call tx.{found}() instead"),
    )
}
