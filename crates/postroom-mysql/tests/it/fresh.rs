//! A fresh, migrated database for each test, and short words for what tests do with it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test harness: what fails here fails the test"
)]

use std::time::Duration;

use postroom::{Entry, Event, Outbox, Position, migration};
use postroom_mysql::Mysql;
use serde_json::value::to_raw_value;
use sqlx::mysql::{MySql, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Transaction};
use uuid::Uuid;

/// Nothing in these tests takes longer, unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A database of its own, the store on it, and a pool for the test's own queries.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) store: Mysql,
    pub(crate) pool: MySqlPool,
    pub(crate) url: String,
    name: String,
}

impl Fresh {
    pub(crate) async fn migrated() -> Self {
        let fresh = Self::empty("utf8mb4").await;
        fresh.migrate().await;
        fresh
    }

    pub(crate) async fn migrate(&self) {
        migration::up(self.store.db(), "postroom", self.store.migrations())
            .await
            .unwrap();
    }

    /// A database without tables whose default character set is this.
    pub(crate) async fn empty(charset: &str) -> Self {
        let name = format!("postroom_test_{}", Uuid::now_v7().simple());
        administer(&format!("create database {name} character set {charset}")).await;
        let (server, _) = admin_url()
            .rsplit_once('/')
            .map(|(server, rest)| (server.to_owned(), rest.to_owned()))
            .unwrap();
        let url = format!("{server}/{name}");
        let pool = MySqlPoolOptions::new().max_connections(24).connect(&url).await.unwrap();
        Self {
            store: Mysql::connect(&url).await.unwrap(),
            pool,
            url,
            name,
        }
    }

    /// Another store object on the same database, as another process would have it.
    pub(crate) async fn second(&self) -> Mysql {
        Mysql::connect(&self.url).await.unwrap()
    }

    /// The same database behind a new store, the first one gone: what a restart does.
    pub(crate) async fn restarted(self) -> Self {
        let store = self.second().await;
        Self { store, ..self }
    }

    /// A transaction of the test's own.
    pub(crate) async fn begin(&self) -> Transaction<'static, MySql> {
        self.pool.begin().await.unwrap()
    }

    /// Commits one event on this key.
    pub(crate) async fn commit(&self, key: &str) {
        let mut tx = self.begin().await;
        append(&mut tx, key).await;
        tx.commit().await.unwrap();
    }

    /// Runs one statement.
    pub(crate) async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await.unwrap();
    }

    /// The single number that a statement selects.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Drops the database. A test that failed keeps its own, to be looked at.
    pub(crate) async fn gone(self) {
        administer(&format!("drop database {}", self.name)).await;
    }
}

fn admin_url() -> String {
    std::env::var("POSTROOM_TEST_MYSQL_URL").unwrap_or_else(|_| {
        panic!(
            "POSTROOM_TEST_MYSQL_URL is not set: this test needs MySQL or MariaDB. Run `cargo xtask test`, or start \
             the services with `eval \"$(cargo xtask services up)\"`"
        )
    })
}

/// Runs one statement of the administrator's.
pub(crate) async fn administer(sql: &str) {
    let mut conn = MySqlConnection::connect(&admin_url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// An event whose payload is its key.
pub(crate) fn event(key: &str) -> Event {
    Event::new("shop.order.placed.v1", "order", key, to_raw_value(key).unwrap()).unwrap()
}

/// Appends one event on this key.
pub(crate) async fn append(conn: &mut MySqlConnection, key: &str) {
    postroom_mysql::append(conn, &[event(key)]).await.unwrap();
}

/// Pulses until nothing more waits.
pub(crate) async fn settle(store: &Mysql) -> i64 {
    loop {
        let pulse = store.pulse().await.unwrap();
        if !pulse.more {
            return pulse.head;
        }
    }
}

/// All entries after `after`, page by page.
pub(crate) async fn drain_after(store: &Mysql, after: Position) -> (Vec<Entry>, Position) {
    settle(store).await;
    let mut entries = Vec::new();
    let mut position = after;
    loop {
        let page = store.read(position, 100).await.unwrap();
        if page.next == position {
            return (entries, position);
        }
        entries.extend(page.entries.iter().cloned());
        position = page.next;
    }
}

/// The keys of all entries after `after`, and the position behind them.
pub(crate) async fn keys_after(store: &Mysql, after: Position) -> (Vec<String>, Position) {
    let (entries, position) = drain_after(store, after).await;
    (
        entries.into_iter().map(|entry| entry.event.aggregate_id).collect(),
        position,
    )
}

/// The keys of all entries.
pub(crate) async fn keys(store: &Mysql) -> Vec<String> {
    keys_after(store, Position::START).await.0
}

/// Asks again and again until the answer is yes.
pub(crate) async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut is_so: F) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: not within {DEADLINE:?}");
}
