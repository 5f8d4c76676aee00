//! Random writers against the exact truth, and the readers that do not work, which must be seen to fail.
//!
//! Every event carries the version its aggregate got in the same transaction, under the aggregate's row lock. So the
//! committed truth is in the aggregates: of each key the versions 1, 2, 3 … must come, each once, in this order.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests: what fails here fails the test"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom::{Entry, Event, Outbox, Position};
use postroom_mysql::Mysql;
use rand::RngExt;
use serde::Deserialize;
use serde_json::{json, value::to_raw_value};
use sqlx::mysql::{MySql, MySqlPool};
use sqlx::{Acquire, AssertSqlSafe, Transaction};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::fresh::Fresh;

const WRITERS: u32 = 16;

#[derive(Deserialize)]
struct Change {
    ver: i64,
}

/// The entries that a reader got, compared with the committed ones.
#[derive(Debug, Default, PartialEq)]
struct Findings {
    read: usize,
    lost: usize,
    repeated: usize,
    inverted: usize,
}

impl Findings {
    fn is_exact(&self) -> bool {
        (self.lost, self.repeated, self.inverted) == (0, 0, 0)
    }
}

/// The versions of each key in the order they came.
#[derive(Debug, Default)]
struct History(BTreeMap<String, Vec<i64>>);

impl History {
    fn record(&mut self, entries: &[Entry]) {
        for entry in entries {
            let ver = entry.event.decode::<Change>().unwrap().ver;
            self.0.entry(entry.event.aggregate_id.clone()).or_default().push(ver);
        }
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn inverted(&self) -> usize {
        self.0
            .values()
            .flat_map(|vers| vers.windows(2))
            .filter(|pair| pair[1] < pair[0])
            .count()
    }

    async fn check(&self, pool: &MySqlPool) -> Findings {
        let truth: Vec<(String, i64)> = sqlx::query_as("select cast(id as char) as id, ver from agg")
            .fetch_all(pool)
            .await
            .unwrap();
        let mut findings = Findings {
            read: self.count(),
            inverted: self.inverted(),
            ..Findings::default()
        };
        for (key, ver) in truth {
            let mut vers = self.0.get(&key).cloned().unwrap_or_default();
            let received = vers.len();
            vers.sort_unstable();
            vers.dedup();
            findings.repeated += received - vers.len();
            findings.lost += usize::try_from(ver).unwrap() - vers.len();
        }
        findings
    }
}

async fn prepare(fresh: &Fresh, keys: u32) {
    fresh
        .run("create table agg (id int primary key, ver bigint not null)")
        .await;
    fresh
        .run("create table elsewhere (id int primary key, n int not null)")
        .await;
    for id in 0..keys {
        fresh.run(&format!("insert into agg values ({id}, 0)")).await;
    }
    for id in 0..WRITERS {
        fresh.run(&format!("insert into elsewhere values ({id}, 0)")).await;
    }
}

/// Sleeps a little, sometimes long.
async fn dawdle() {
    let micros = match rand::rng().random_range(0..100) {
        0..60 => 0,
        60..97 => rand::rng().random_range(0..15_000),
        _ => rand::rng().random_range(100_000..700_000),
    };
    sleep(Duration::from_micros(micros)).await;
}

/// Changes an aggregate and emits what it became.
async fn change(tx: &mut Transaction<'_, MySql>, key: u32) -> postroom::Result<()> {
    let failed = |source: sqlx::Error| postroom::Error::caused(postroom::ErrorKind::Unavailable, "change", source);
    let mut events = Vec::new();
    let count = rand::rng().random_range(1..4);
    for _ in 0..count {
        sqlx::query("update agg set ver = ver + 1 where id = ?")
            .bind(key)
            .execute(&mut **tx)
            .await
            .map_err(failed)?;
        let ver: i64 = sqlx::query_scalar("select ver from agg where id = ?")
            .bind(key)
            .fetch_one(&mut **tx)
            .await
            .map_err(failed)?;
        let payload = to_raw_value(&json!({ "ver": ver })).unwrap();
        events.push(Event::new("agg.changed", "agg", key.to_string(), payload)?);
    }
    dawdle().await;
    postroom_mysql::append(tx, &events).await
}

/// One transaction of a writer: perhaps writes elsewhere first, perhaps takes a part back, perhaps everything.
async fn transaction(pool: &MySqlPool, writer: u32, keys: u32) -> postroom::Result<()> {
    let failed = |source: sqlx::Error| postroom::Error::caused(postroom::ErrorKind::Unavailable, "transaction", source);
    let (is_early, takes_back, rolls_back) = {
        let mut rng = rand::rng();
        (rng.random_bool(0.5), rng.random_bool(0.1), rng.random_bool(0.07))
    };
    let mut tx = pool.begin().await.map_err(failed)?;
    if is_early {
        sqlx::query("update elsewhere set n = n + 1 where id = ?")
            .bind(writer)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        dawdle().await;
    }
    let key = rand::rng().random_range(0..keys);
    change(&mut tx, key).await?;
    if takes_back {
        let mut inner = tx.begin().await.map_err(failed)?;
        change(&mut inner, key).await?;
        inner.rollback().await.map_err(failed)?;
        change(&mut tx, key).await?;
    }
    dawdle().await;
    if rolls_back {
        tx.rollback().await
    } else {
        tx.commit().await
    }
    .map_err(failed)
}

/// Sixteen writers for so long; what the database refuses (deadlocks) is rolled back, and the writer goes on.
async fn write(pool: &MySqlPool, keys: u32, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let pool = pool.clone();
        writers.spawn(async move {
            while Instant::now() < until {
                drop(transaction(&pool, writer, keys).await);
            }
        });
    }
    writers.join_all().await;
}

/// Transactions on very few keys, each in a single packet, as fast as they go: where one read view is torn.
async fn write_hot(pool: &MySqlPool, keys: u32, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let pool = pool.clone();
        writers.spawn(async move {
            let mut conn = pool.acquire().await.unwrap();
            while Instant::now() < until {
                let key = rand::rng().random_range(0..keys);
                let sql = format!(
                    "start transaction;
                     update elsewhere set n = n + 1 where id = {writer};
                     update agg set ver = ver + 1 where id = {key};
                     insert into postroom_incoming (event_id, event_type, aggregate_type, aggregate_id, payload)
                     select uuid(), 'agg.changed', 'agg', {key}, json_object('ver', ver) from agg where id = {key};
                     commit"
                );
                if sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.is_err() {
                    sqlx::raw_sql("rollback").execute(&mut *conn).await.unwrap();
                }
            }
        });
    }
    writers.join_all().await;
}

/// Follows the log until all is there or nothing has come for long; the store object is thrown away now and then, in
/// the middle of whatever it does.
async fn follow(fresh: &Fresh, is_over: &AtomicBool) -> History {
    let mut history = History::default();
    let mut position = Position::START;
    let mut store = fresh.second().await;
    let mut moved_at = Instant::now();
    while moved_at.elapsed() < Duration::from_secs(10) {
        if rand::rng().random_bool(0.01) {
            let cut_off = Duration::from_micros(rand::rng().random_range(0..3_000));
            drop(tokio::time::timeout(cut_off, store.pulse()).await);
            store = fresh.second().await;
        }
        let before = history.count();
        store.pulse().await.unwrap();
        take(&store, &mut position, &mut history).await;
        if history.count() > before {
            moved_at = Instant::now();
        } else if is_over.load(Ordering::Relaxed) && history.count() >= committed(&fresh.pool).await {
            break;
        }
        sleep(Duration::from_millis(2)).await;
    }
    history
}

async fn committed(pool: &MySqlPool) -> usize {
    let sum: i64 = sqlx::query_scalar("select cast(sum(ver) as signed) from agg")
        .fetch_one(pool)
        .await
        .unwrap();
    usize::try_from(sum).unwrap()
}

/// Reads to the head, sometimes going on from the middle of a page.
async fn take(store: &Mysql, position: &mut Position, history: &mut History) {
    loop {
        let page = store.read(*position, 200).await.unwrap();
        if page.entries.is_empty() {
            return;
        }
        let count = if rand::rng().random_bool(0.2) {
            rand::rng().random_range(1..=page.entries.len())
        } else {
            page.entries.len()
        };
        history.record(&page.entries[..count]);
        *position = page.after(page.entries[count - 1].id);
    }
}

/// Keeps another process's sequencer at work beside the one that is followed.
async fn compete(store: &Mysql, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        store.pulse().await.unwrap();
        sleep(Duration::from_millis(rand::rng().random_range(0..20))).await;
    }
}

/// How long random tests write: more on demand, because rare faults need it.
fn seconds() -> u64 {
    std::env::var("POSTROOM_TEST_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(8)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_writers_are_read_exactly() {
    let fresh = Fresh::migrated().await;
    prepare(&fresh, 50).await;
    let is_over = AtomicBool::new(false);
    let writing = async {
        write(&fresh.pool, 50, seconds()).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let ((), (), history) = tokio::join!(writing, compete(&fresh.store, &is_over), follow(&fresh, &is_over));
    let findings = history.check(&fresh.pool).await;
    eprintln!("random writers: {findings:?}");
    assert!(findings.read > 500 && findings.is_exact(), "{findings:?}");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_are_read_exactly() {
    let fresh = Fresh::migrated().await;
    prepare(&fresh, 3).await;
    let is_over = AtomicBool::new(false);
    let writing = async {
        write_hot(&fresh.pool, 3, seconds()).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let ((), history) = tokio::join!(writing, follow(&fresh, &is_over));
    let findings = history.check(&fresh.pool).await;
    eprintln!("hot keys: {findings:?}");
    assert!(findings.read > 500 && findings.is_exact(), "{findings:?}");
    fresh.gone().await;
}

/// `id > cursor` over the writers' own numbers: the check must catch it, or it proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_check_catches_a_reader_by_id() {
    let fresh = Fresh::migrated().await;
    prepare(&fresh, 50).await;
    let is_over = AtomicBool::new(false);
    let writing = async {
        write(&fresh.pool, 50, 4).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let reading = async {
        let mut history = History::default();
        let mut last = 0;
        loop {
            let was_over = is_over.load(Ordering::Relaxed);
            let rows: Vec<(i64, String, i64)> = sqlx::query_as(
                "select id, aggregate_id, cast(json_value(payload, '$.ver') as signed)
                 from postroom_incoming where id > ? order by id",
            )
            .bind(last)
            .fetch_all(&fresh.pool)
            .await
            .unwrap();
            for (id, key, ver) in rows {
                history.0.entry(key).or_default().push(ver);
                last = id;
            }
            if was_over {
                return history;
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    let ((), history) = tokio::join!(writing, reading);
    let findings = history.check(&fresh.pool).await;
    eprintln!("naive reader by id: {findings:?}");
    assert!(findings.lost > 0, "{findings:?}");
    fresh.gone().await;
}
