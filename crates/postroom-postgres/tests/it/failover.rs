//! Another server takes over behind a pooler, which keeps the relay's connections.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Receipt, Relay, Route, To};
use postroom_postgres::Postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fresh::{Fresh, admin, eventually, service, url};

/// Remembers what it gets, and answers for "lost" when the test lets it.
#[derive(Debug, Default)]
struct Destined {
    texts: Mutex<Vec<String>>,
    has_lost: Notify,
    may_answer: Notify,
}

#[async_trait]
impl Destination for Destined {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let texts: Vec<String> = batch
            .entries
            .iter()
            .map(|entry| entry.event.decode().unwrap())
            .collect();
        let has_lost = texts.iter().any(|text| text == "lost");
        self.texts.lock().unwrap().extend(texts);
        if has_lost {
            self.has_lost.notify_one();
            self.may_answer.notified().await;
        }
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// Does something to a database that the pooler lets nobody use meanwhile. Clients keep their connections and wait.
async fn while_paused(database: &str, statement: &str) {
    let mut pooler = PgConnection::connect(&service("POSTROOM_TEST_PGBOUNCER_URL", "pgbouncer"))
        .await
        .unwrap();
    let mut order = async |verb: &str| {
        let command = AssertSqlSafe(format!("{verb} {database}"));
        sqlx::raw_sql(command).execute(&mut pooler).await.unwrap();
    };
    order("PAUSE").await;
    admin(statement).await;
    order("RESUME").await;
}

/// A copy inside one server has another oid; a standby has the same.
async fn is_standby(database: &str) {
    let mut copy = PgConnection::connect(&url(database)).await.unwrap();
    let same = "update postroom.outbox_cluster set database_oid =
        (select oid::bigint from pg_database where datname = current_database())";
    sqlx::raw_sql(same).execute(&mut copy).await.unwrap();
    copy.close().await.unwrap();
}

/// The standby does not have the last event. An event that is emitted there has the same number as that event. A worker that has
/// delivered
/// the lost event must not write down on the new server how far it has come on the old one: it would skip the new event.
#[tokio::test]
async fn progress_on_a_server_is_not_written_on_the_one_that_takes_over() {
    let db = Fresh::new().await;
    db.writers.close().await;
    db.store.pool().close().await;
    let (name, standby, lost) = (&db.name, format!("{}_standby", db.name), format!("{}_lost", db.name));
    let pooled = format!("{}?pooler=transaction", service("POSTROOM_TEST_PGBOUNCER_URL", name));
    let store = Arc::new(Postgres::connect(&pooled).await.unwrap());
    let number = async |query: &'static str| sqlx::query_scalar::<_, i64>(query).fetch_one(store.pool()).await;
    let emit = async |text: &str| {
        let mut tx = store.pool().begin().await.unwrap();
        postroom_postgres::append(&mut tx, &[crate::fresh::event("k", text)])
            .await
            .unwrap();
        tx.commit().await.unwrap();
    };
    let destined = Arc::new(Destined::default());
    let route = Route::new("out", To::Destination(Arc::<Destined>::clone(&destined)));
    let (stop, ttl) = (CancellationToken::new(), Duration::from_secs(30));
    let relay = Relay::new(Arc::<Postgres>::clone(&store)).lease_ttl(ttl).route(route);
    let mut running = JoinSet::new();
    running.spawn(relay.run(stop.clone()));

    emit("first").await;
    eventually("the progress is written down", async || {
        let delivered = "select coalesce(sum(delivered), 0)::bigint from postroom.outbox_cursor";
        number(delivered).await.unwrap() == 1
    })
    .await;
    while_paused(name, &format!("create database {standby} template {name}")).await;
    is_standby(&standby).await;
    emit("lost").await;
    destined.has_lost.notified().await;
    let last_tick = "select max(n) from postroom.outbox_tick";
    let read_to = number(last_tick).await.unwrap();
    // In one transaction: a pooler that finds no such database refuses its clients for a while.
    let takes_over = format!("alter database {name} rename to {lost}; alter database {standby} rename to {name}");
    while_paused(name, &takes_over).await;
    emit("new").await;
    eventually("the new event can be read", async || {
        number(last_tick).await.unwrap() >= read_to
    })
    .await;
    destined.may_answer.notify_one();
    eventually("the new event is delivered", async || {
        destined.texts.lock().unwrap().last().is_some_and(|text| text == "new")
    })
    .await;
    assert_eq!(*destined.texts.lock().unwrap(), ["first", "lost", "new"]);

    stop.cancel();
    running.join_next().await.unwrap().unwrap().unwrap();
    drop(store);
    admin(&format!("drop database {lost} with (force)")).await;
}
