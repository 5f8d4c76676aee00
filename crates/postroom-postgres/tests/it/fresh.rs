//! A fresh, migrated database for one test, and the few verbs that tests are written in.

use std::time::Duration;

use postroom::{Entry, Event, Outbox, Position, Pulse, migration, parse_payload};
use postroom_postgres::{Postgres, append};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};
use uuid::Uuid;

/// A database of its own; it goes when this goes.
pub(crate) struct Fresh {
    pub(crate) store: Postgres,
    /// Connections of writers, beside the store's.
    pub(crate) writers: PgPool,
    pub(crate) name: String,
}

impl Fresh {
    pub(crate) async fn new() -> Self {
        let name = format!("postroom_test_{}", Uuid::now_v7().simple());
        admin(&format!("create database {name}")).await;
        let fresh = Self::open(name).await;
        migration::up(fresh.store.db(), "postroom", fresh.store.migrations())
            .await
            .unwrap();
        fresh
    }

    /// A database that is already there.
    pub(crate) async fn open(name: String) -> Self {
        let url = url(&name);
        let writers = PgPoolOptions::new().max_connections(40).connect_lazy(&url).unwrap();
        Self {
            store: Postgres::connect(&url).await.unwrap(),
            writers,
            name,
        }
    }

    /// Another store object on the same database, as a second process would have it.
    pub(crate) async fn second(&self) -> Postgres {
        Postgres::connect(&url(&self.name)).await.unwrap()
    }

    pub(crate) async fn begin(&self) -> sqlx::Transaction<'static, sqlx::Postgres> {
        self.writers.begin().await.unwrap()
    }

    /// Emits in a transaction of its own, one event for each text, all on the key `k`.
    pub(crate) async fn commit(&self, texts: &[&str]) {
        let mut tx = self.begin().await;
        append(&mut tx, &texts.iter().map(|text| event("k", text)).collect::<Vec<_>>())
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    pub(crate) async fn sql(&self, statement: &str) {
        self.writers.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }

    /// The first column of the first row.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query.to_owned()))
            .fetch_one(&self.writers)
            .await
            .unwrap()
    }

    pub(crate) async fn pulse(&self) -> Pulse {
        self.store.pulse().await.unwrap()
    }

    /// Pulses, reads to the head, and moves the position there.
    pub(crate) async fn drain(&self, position: &mut Position) -> Vec<Entry> {
        self.pulse().await;
        drain(&self.store, position, 1_000).await
    }

    /// The entries of a drain from here, as texts.
    pub(crate) async fn texts(&self, position: &mut Position) -> Vec<String> {
        texts(&self.drain(position).await)
    }

    /// Registers a cursor, as a relay would.
    pub(crate) async fn cursor(&self, route: &str, position: Position) {
        sqlx::query(
            "insert into postroom.outbox_cursor (route, shard, position) values ($1, 0, $2)
             on conflict (route, shard) do update set position = excluded.position",
        )
        .bind(route)
        .bind(position.to_string())
        .execute(&self.writers)
        .await
        .unwrap();
    }
}

impl Drop for Fresh {
    /// Best effort, on a thread of its own: a drop cannot await, and the test's runtime may be ending.
    fn drop(&mut self) {
        let statement = format!("drop database if exists {} with (force)", self.name);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime
                    .ok()
                    .and_then(|runtime| runtime.block_on(try_admin(&statement)).ok())
            });
        });
    }
}

/// Reads to the head without a pulse.
pub(crate) async fn drain(store: &dyn Outbox, position: &mut Position, limit: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let page = store.read(*position, limit).await.unwrap();
        entries.extend(page.entries.iter().cloned());
        if page.next == *position {
            return entries;
        }
        *position = page.next;
    }
}

pub(crate) fn event(key: &str, text: &str) -> Event {
    Event::new(
        "test.happened.v1",
        "thing",
        key,
        parse_payload(&format!("{text:?}")).unwrap(),
    )
    .unwrap()
}

pub(crate) fn texts(entries: &[Entry]) -> Vec<String> {
    entries
        .iter()
        .map(|entry| entry.event.decode::<String>().unwrap())
        .collect()
}

/// The address of a database on the server of the tests.
pub(crate) fn url(database: &str) -> String {
    service("POSTROOM_TEST_POSTGRES_URL", database)
}

pub(crate) fn service(variable: &str, database: &str) -> String {
    let url = std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set: start the services with `eval \"$(cargo xtask services up)\"`, or run everything \
             with `cargo xtask test`"
        )
    });
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

pub(crate) async fn admin(statement: &str) {
    try_admin(statement).await.unwrap();
}

async fn try_admin(statement: &str) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(&url("postgres")).await?;
    connection.execute(AssertSqlSafe(statement.to_owned())).await?;
    connection.close().await
}

/// Waits until the condition holds.
pub(crate) async fn eventually<F: AsyncFn() -> bool>(what: &str, condition: F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .unwrap_or_else(|_| panic!("not in 20 s: {what}"));
}
