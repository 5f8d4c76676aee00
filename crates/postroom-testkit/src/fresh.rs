//! A fresh, migrated store for one test: its own database on the running server, or its own folder.
//!
//! Tests can therefore all run at once. A missing service fails the test and says how to start it.

#![expect(clippy::panic, reason = "a test harness: a test without its database has failed")]

use std::env;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use postroom::table::{Table, named};
use postroom::{Error, Inspect, Result, migration};
use postroom_mysql::Mysql;
use postroom_postgres::Postgres;
use postroom_sqlite::Sqlite;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend};
use tempfile::TempDir;
use uuid::Uuid;

use crate::feed::Feed;
use crate::wait::until;

/// Every database a test makes begins with this, so that left-over ones can be found and dropped.
pub const NAME_PREFIX: &str = "postroom_test_";

/// A server that refuses for this long is not there. (The driver goes on trying until then.)
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A store with the platform's tables and nothing in them. Its database goes when this goes.
#[derive(Debug)]
pub struct Fresh {
    /// Whether two transactions may both have written and not committed. SQLite lets the second writer wait.
    pub overlapping_writers: bool,
    /// Whether JSON comes back byte for byte. PostgreSQL's `jsonb` keeps the value, not the text.
    pub keeps_json_text: bool,
    /// How subscribers are fed, if not straight from the outbox.
    pub(crate) feed: Option<Feed>,
    store: Arc<dyn Inspect>,
    // After the store: its connections go first, then the database.
    home: Home,
}

/// A fresh store on the PostgreSQL of `POSTROOM_TEST_POSTGRES_URL`.
pub async fn postgres() -> Fresh {
    postgres_on(&variable("POSTROOM_TEST_POSTGRES_URL")).await
}

/// A fresh store on the same PostgreSQL, behind the transaction pooler of `POSTROOM_TEST_PGBOUNCER_URL`.
pub async fn pgbouncer() -> Fresh {
    let url = format!("{}?pooler=transaction", variable("POSTROOM_TEST_PGBOUNCER_URL"));
    postgres_on(&url).await
}

/// A fresh store on the MySQL or MariaDB of `POSTROOM_TEST_MYSQL_URL`.
pub async fn mysql() -> Fresh {
    mysql_on(&variable("POSTROOM_TEST_MYSQL_URL")).await
}

/// A fresh store on a PostgreSQL whose administrator's address this is.
pub async fn postgres_on(admin_url: &str) -> Fresh {
    Fresh::open(Home::Postgres(Own::create(admin_url).await)).await
}

/// A fresh store on a MySQL or MariaDB whose administrator's address this is.
pub async fn mysql_on(admin_url: &str) -> Fresh {
    Fresh::open(Home::Mysql(Own::create(admin_url).await)).await
}

/// A fresh store in a folder of its own.
pub async fn sqlite() -> Fresh {
    let folder = tempfile::Builder::new()
        .prefix(NAME_PREFIX)
        .tempdir()
        .unwrap_or_else(|error| panic!("make a folder for a test: {error}"));
    Fresh::open(Home::Sqlite(folder)).await
}

impl Fresh {
    async fn open(home: Home) -> Self {
        let store = must(open(&home.url()).await, "connect to a fresh database");
        must(
            migration::up(store.db(), "postroom", store.migrations()).await,
            "migrate a fresh database",
        );
        Self {
            overlapping_writers: !matches!(home, Home::Sqlite(_)),
            keeps_json_text: !matches!(home, Home::Postgres(_)),
            feed: None,
            store,
            home,
        }
    }

    /// The same store, with its subscribers fed through a broker.
    #[must_use]
    pub fn fed_by(self, feed: Feed) -> Self {
        Self {
            feed: Some(feed),
            ..self
        }
    }

    /// The store, to be shared.
    pub fn store(&self) -> Arc<dyn Inspect> {
        Arc::clone(&self.store)
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        self.home.url()
    }

    /// Another store object on the same database, as a second process would have it.
    pub async fn second(&self) -> Arc<dyn Inspect> {
        self.connecting().await
    }

    /// The same, for another runtime.
    pub(crate) fn connecting(&self) -> impl Future<Output = Arc<dyn Inspect>> + Send + use<> {
        let url = self.url();
        async move { must(open(&url).await, "connect once more") }
    }

    /// Waits until everything that is committed can be read, whichever process numbers it.
    pub async fn catch_up(&self) {
        until("everything committed is in the log", || async {
            let last = self.last_numbered().await;
            let pulse = must(self.pulse().await, "make readable what is committed");
            last.is_some_and(|last| last <= pulse.head)
        })
        .await;
    }

    /// The last entry's number, unless some wait for theirs. Only MySQL gives numbers later, and lets them be read later still.
    async fn last_numbered(&self) -> Option<i64> {
        let db = self.db();
        if db.get_database_backend() != DbBackend::MySql {
            return Some(0);
        }
        let mut waiting = Query::select();
        waiting.column("id").from(named(db, Table::Incoming)).limit(1);
        let mut last = Query::select();
        last.expr_as(Expr::cust("coalesce(max(id), 0)"), "last")
            .from(named(db, Table::Outbox));
        let (waiting, last) = (db.query_one(&waiting).await, db.query_one(&last).await);
        let doing = "look for what is not numbered";
        let waiting = must(waiting.map_err(|source| Error::db(doing, source)), doing);
        let last = must(last.map_err(|source| Error::db(doing, source)), doing);
        last.filter(|_| waiting.is_none())
            .and_then(|row| row.try_get("", "last").ok())
    }

    /// The same database behind another store object, the first one gone: what a restart does.
    #[must_use]
    pub async fn restarted(self) -> Self {
        let store = self.second().await;
        Self { store, ..self }
    }

    /// The same database behind a store that wraps this one, for example a broken twin.
    #[must_use]
    pub fn behind<S: Inspect + 'static>(self, wrap: impl FnOnce(Arc<dyn Inspect>) -> S) -> Self {
        let store = Arc::new(wrap(self.store()));
        Self { store, ..self }
    }

    /// Connections for `count` writers beside the store's own. SQLite's writers queue for the store's one; behind a pooler
    /// they share the store's, which know how to live there.
    pub async fn writers(&self, count: u32) -> DatabaseConnection {
        match &self.home {
            Home::Sqlite(_) => self.store.db().clone(),
            Home::Postgres(own) if own.url().contains("pooler=") => self.store.db().clone(),
            Home::Postgres(own) | Home::Mysql(own) => must(connect(&own.url(), count).await, "connect writers"),
        }
    }
}

/// A fresh store is used like the store itself.
impl Deref for Fresh {
    type Target = dyn Inspect;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// Where the data lies; taken away when dropped.
#[derive(Debug)]
enum Home {
    Postgres(Own),
    Mysql(Own),
    Sqlite(TempDir),
}

impl Home {
    fn url(&self) -> String {
        match self {
            Self::Postgres(own) | Self::Mysql(own) => own.url(),
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("postroom.db").display()),
        }
    }
}

async fn open(url: &str) -> Result<Arc<dyn Inspect>> {
    Ok(match url {
        _ if url.starts_with("postgres") => Arc::new(Postgres::connect(url).await?),
        _ if url.starts_with("mysql") => Arc::new(Mysql::connect(url).await?),
        _ => Arc::new(Sqlite::open(url).await?),
    })
}

/// One database of a server that is there for all tests.
#[derive(Debug)]
struct Own {
    admin_url: String,
    name: String,
}

impl Own {
    async fn create(admin_url: &str) -> Self {
        let name = format!("{NAME_PREFIX}{}", Uuid::now_v7().simple());
        let own = Self {
            admin_url: admin_url.to_owned(),
            name,
        };
        must(
            own.execute(&format!("create database {}", own.name)).await,
            "create a database for a test",
        );
        own
    }

    fn url(&self) -> String {
        with_database(&self.admin_url, &self.name)
    }

    /// Runs one statement of the administrator's.
    async fn execute(&self, statement: &str) -> Result<()> {
        let db = connect(&self.admin_url, 1).await?;
        db.execute_unprepared(statement)
            .await
            .map_err(|source| Error::db(statement, source))?;
        Ok(db.close().await?)
    }

    async fn remove(&self) -> Result<()> {
        if self.admin_url.starts_with("postgres") {
            return self
                .execute(&format!("drop database if exists {} with (force)", self.name))
                .await;
        }
        // A transaction somebody forgot must not hold up the end of a test for long.
        self.execute(&format!(
            "set session lock_wait_timeout = 3; drop database if exists {}",
            self.name
        ))
        .await
    }
}

impl Drop for Own {
    /// Best effort. On a thread of its own, because a drop cannot await and the test's runtime may be ending.
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                    return;
                };
                if let Err(error) = runtime.block_on(self.remove()) {
                    tracing::warn!(database = %self.name, error = error.report(), "left a test's database behind");
                }
            });
        });
    }
}

/// A variable that `cargo xtask services` sets; a test that needs it fails without.
pub(crate) fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: this test needs a service. Start the services and tell this shell about them with \
             `eval \"$(cargo xtask services up)\"`, or run everything with `cargo xtask test`"
        )
    })
}

/// A pool without statement logging.
async fn connect(url: &str, connections_max: u32) -> Result<DatabaseConnection> {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(connections_max)
        .sqlx_logging(false)
        .connect_timeout(CONNECT_MAX);
    Database::connect(options)
        .await
        .map_err(|source| Error::db("connect to the test database", source))
}

/// The same address with another database.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url
        .split_once('?')
        .map_or((url, None), |(address, query)| (address, Some(query)));
    let host_from = address.find("://").map_or(0, |at| at + 3);
    let host_to = address
        .get(host_from..)
        .and_then(|host| host.find('/'))
        .map_or(address.len(), |at| host_from + at);
    let server = address.get(..host_to).unwrap_or(address);
    match query {
        Some(query) => format!("{server}/{name}?{query}"),
        None => format!("{server}/{name}"),
    }
}

fn must<T>(result: Result<T>, doing: &str) -> T {
    result.unwrap_or_else(|error| panic!("{doing}: {}", error.report()))
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_database_of_an_address_changes() {
        let check = |url: &str, expected: &str| assert_eq!(with_database(url, "new"), expected);
        check("postgres://me@127.0.0.1:5/postgres", "postgres://me@127.0.0.1:5/new");
        check(
            "mysql://me:pw@host/old?ssl-mode=disabled",
            "mysql://me:pw@host/new?ssl-mode=disabled",
        );
        check("postgres://host", "postgres://host/new");
    }
}
