//! Writers that do everything that has ever broken a reader, and a count of what was lost, doubled or out of order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom::{Outbox, Position};
use postroom_postgres::{Postgres, append};
use rand::{random_bool, random_range};
use sqlx::{Acquire, Executor, PgConnection, PgPool};
use tokio::task::JoinSet;

use crate::fresh::{Fresh, event, url};

const WRITERS: usize = 16;
const KEYS: i32 = 50;

/// Rows whose first tick does not allow for their id, and rows that appeared at or below an earlier floor. By
/// transaction: all rows of one have the same first tick.
const AUDIT: &str = "
    with written as materialized (
        select tx, min(id) as lowest, max(id) as highest from postroom.outbox group by tx
    )
    select
        count(*) filter (where w.lowest <= t.lo or w.highest > t.hi),
        count(*) filter (where w.lowest <= (select max(floor) from postroom.outbox_tick e where e.n < t.n)),
        count(*)
    from written w,
        lateral (
            select n, lo, hi
            from postroom.outbox_tick t
            where pg_visible_in_snapshot(w.tx, t.snapshot)
            order by n
            limit 1
        ) t";

#[derive(Debug, Default)]
struct Faults {
    lost: i64,
    duplicates: i64,
    disorder: i64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_doubled_or_out_of_order() {
    let seconds = std::env::var("POSTROOM_TEST_CHECKER_S")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10);
    let db = Fresh::new().await;
    db.sql(&format!(
        "create table thing (id int primary key, version bigint not null) with (fillfactor = 10);
         insert into thing select n, 0 from generate_series(0, {}) n;
         create table noise (n int)",
        KEYS - 1
    ))
    .await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write(db.writers.clone(), end));
    }
    let mut rivals = JoinSet::new();
    for _ in 0..2 {
        rivals.spawn(tick(db.second().await, Arc::clone(&done)));
    }
    let mut readers = JoinSet::new();
    readers.spawn(follow(db.name.clone(), Arc::clone(&done)));
    let mut naive = JoinSet::new();
    naive.spawn(follow_naively(db.writers.clone(), Arc::clone(&done)));
    writers.join_all().await;
    done.store(true, Ordering::Relaxed);
    rivals.join_all().await;
    let got = readers.join_next().await.unwrap().unwrap();
    let got_naively = naive.join_next().await.unwrap().unwrap();

    let (bounds, floors, transactions): (i64, i64, i64) = sqlx::query_as(AUDIT).fetch_one(&db.writers).await.unwrap();
    let faults = judge(&db, &got).await;
    let naive = judge(&db, &got_naively).await;
    let ticks = db.number("select count(*) from postroom.outbox_tick").await;
    println!(
        "{} entries of {transactions} transactions in {ticks} ticks: {faults:?}; `id > cursor`: {naive:?}",
        got.len()
    );
    assert!(got.len() > 1_000, "the checker must have something to check");
    assert_eq!((faults.lost, faults.duplicates, faults.disorder), (0, 0, 0));
    assert_eq!(
        (bounds, floors),
        (0, 0),
        "rows outside the bounds of their tick, rows at or below an earlier floor"
    );
    assert!(naive.lost > 0, "a checker that passes the broken twin proves nothing");
}

/// A transaction after the other until the end.
async fn write(pool: PgPool, end: Instant) {
    while Instant::now() < end {
        let mut tx = pool.begin().await.unwrap();
        change(&mut tx).await;
        match random_range(0..1000) {
            0..5 => pause(1_500).await,
            5..300 => pause(25).await,
            _ => (),
        }
        let dice = random_range(0..100);
        if dice < 8 {
            tx.rollback().await.unwrap();
        } else if dice < 10 {
            commit_in_two_phases(tx, &pool).await;
        } else {
            tx.commit().await.unwrap();
        }
    }
}

/// Takes its xid early or late, locks a key, emits what is next on it, perhaps twice with one attempt taken back.
async fn change(tx: &mut PgConnection) {
    let key = random_range(0..KEYS);
    if random_bool(0.5) {
        tx.execute("insert into noise values (1)").await.unwrap();
        pause(5).await;
    }
    if random_bool(0.3) {
        let mut inner = tx.begin().await.unwrap();
        emit(&mut inner, key, 2).await;
        inner.rollback().await.unwrap();
    }
    emit(
        tx,
        key,
        if random_range(0..100) == 0 {
            300
        } else {
            random_range(1..4)
        },
    )
    .await;
}

async fn emit(tx: &mut PgConnection, key: i32, count: i64) {
    let version: i64 = sqlx::query_scalar("update thing set version = version + $2 where id = $1 returning version")
        .bind(key)
        .bind(count)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    let events: Vec<_> = (version - count + 1..=version)
        .map(|version| event(&key.to_string(), &version.to_string()))
        .collect();
    append(tx, &events).await.unwrap();
}

async fn commit_in_two_phases(mut tx: sqlx::Transaction<'static, sqlx::Postgres>, pool: &PgPool) {
    let gid = uuid::Uuid::now_v7();
    tx.execute(sqlx::AssertSqlSafe(format!("prepare transaction '{gid}'")))
        .await
        .unwrap();
    drop(tx);
    pause(300).await;
    let verb = if random_bool(0.8) { "commit" } else { "rollback" };
    pool.execute(sqlx::AssertSqlSafe(format!("{verb} prepared '{gid}'")))
        .await
        .unwrap();
}

async fn tick(store: Postgres, done: Arc<AtomicBool>) {
    while !done.load(Ordering::Relaxed) {
        store.pulse().await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Reads to the end, with the narrowest windows, and starts over with a new store and a written-down position again and
/// again, sometimes in the middle of a page.
async fn follow(database: String, done: Arc<AtomicBool>) -> Vec<(String, i64)> {
    let mut got = Vec::new();
    let mut position = Position::START.to_string();
    loop {
        let was_done = done.load(Ordering::Relaxed);
        let store = Postgres::connect(&url(&database)).await.unwrap();
        let until = Instant::now() + Duration::from_millis(random_range(50..400));
        while Instant::now() < until || was_done {
            let head = store.pulse().await.unwrap();
            let after: Position = position.parse().unwrap();
            let limit = if was_done || random_bool(0.2) {
                300
            } else {
                random_range(1..20)
            };
            let page = store.read(after, limit).await.unwrap();
            let taken = if random_bool(0.2) {
                page.entries.len() / 2
            } else {
                page.entries.len()
            };
            let entries = page.entries.get(..taken).unwrap_or_default();
            got.extend(
                entries
                    .iter()
                    .map(|entry| (entry.event.aggregate_id.clone(), version(entry))),
            );
            let next = match entries.last() {
                Some(last) => page.after(last.id),
                None if page.entries.is_empty() => page.next,
                None => after,
            };
            position = next.to_string();
            if was_done && page.next == after && head.head == after.from {
                return got;
            }
        }
    }
}

async fn pause(ms_max: u64) {
    tokio::time::sleep(Duration::from_millis(random_range(0..ms_max))).await;
}

/// The broken twin: what everybody writes first.
async fn follow_naively(pool: PgPool, done: Arc<AtomicBool>) -> Vec<(String, i64)> {
    let (mut got, mut cursor) = (Vec::new(), 0_i64);
    loop {
        let was_done = done.load(Ordering::Relaxed);
        let rows: Vec<(i64, String, String)> = sqlx::query_as(
            "select id, aggregate_id, payload #>> '{}' from postroom.outbox where id > $1 order by id limit 1000",
        )
        .bind(cursor)
        .fetch_all(&pool)
        .await
        .unwrap();
        if rows.is_empty() && was_done {
            return got;
        }
        cursor = rows.last().map_or(cursor, |row| row.0);
        got.extend(
            rows.into_iter()
                .map(|(_, key, version)| (key, version.parse().unwrap())),
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn version(entry: &postroom::Entry) -> i64 {
    entry.event.decode::<String>().unwrap().parse().unwrap()
}

/// Each key must have arrived as 1, 2, 3 … up to the version its row has.
async fn judge(db: &Fresh, got: &[(String, i64)]) -> Faults {
    let mut by_key: HashMap<&str, Vec<i64>> = HashMap::new();
    for (key, version) in got {
        by_key.entry(key).or_default().push(*version);
    }
    let committed: Vec<(i32, i64)> = sqlx::query_as("select id, version from thing")
        .fetch_all(&db.writers)
        .await
        .unwrap();
    let mut faults = Faults::default();
    for (key, version) in committed {
        let seen = by_key.remove(key.to_string().as_str()).unwrap_or_default();
        let distinct: std::collections::HashSet<i64> = seen.iter().copied().collect();
        faults.lost += version - i64::try_from(distinct.len()).unwrap();
        faults.duplicates += i64::try_from(seen.len() - distinct.len()).unwrap();
        faults.disorder += i64::try_from(seen.windows(2).filter(|pair| pair[1] < pair[0]).count()).unwrap();
    }
    assert!(by_key.is_empty(), "entries of keys that never were");
    faults
}
