//! Retention and the archive: which entries may be removed, and that no caller can change a stored entry.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a clause asserts by panicking"
)]

use std::pin::pin;
use std::time::Duration;

use postroom::table::{Table, named};
use postroom::{Entry, Inspect, Position, Prune, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Alias, Expr, ExprTrait, LockType, OnConflict, Order, Query};
use tokio::time::{Instant, timeout};

use super::actor::{A_WHILE, DEADLINE, Reader, append, begin, change, commit, fill, label};
use crate::Fresh;

const AT_ONCE: Prune = Prune {
    keep: Duration::ZERO,
    batch: 1_000,
    archive: false,
};

/// Writes a route's progress down, as settling does.
async fn settle(store: &dyn Inspect, route: &str, position: Position) {
    let mut insert = Query::insert();
    insert
        .into_table(named(store.db(), Table::Cursor))
        .columns(["route", "shard", "position"].map(Alias::new))
        .values_panic([route.into(), 0.into(), position.to_string().into()])
        .on_conflict(
            OnConflict::columns(["route", "shard"].map(Alias::new))
                .update_column(Alias::new("position"))
                .to_owned(),
        );
    change(store.db(), &insert).await;
}

/// Prunes until `count` are gone. Some stores can take the newest only after later ones have come, so a reader moves on.
async fn prune_until(fresh: &Fresh, prune: Prune, reader: &mut Reader, count: u64) -> u64 {
    let start = Instant::now();
    let mut gone = 0;
    while gone < count {
        gone += fresh.prune(&prune).await.unwrap();
        assert!(
            start.elapsed() < DEADLINE,
            "{gone} of {count} entries pruned in {DEADLINE:?}"
        );
        commit(fresh.db(), "later", &["later"]).await;
        reader.take(1).await;
        settle(&**fresh, "slow", reader.position).await;
    }
    gone
}

/// Nothing goes that a registered route has not passed, however old it is; what all have passed goes.
pub async fn prune_keeps_what_a_cursor_needs(fresh: Fresh) {
    let all = fill(&fresh, 20).await;
    settle(&*fresh, "quick", fresh.head().await.unwrap()).await;
    settle(&*fresh, "slow", Position::START).await;
    assert_eq!(
        fresh.prune(&AT_ONCE).await.unwrap(),
        0,
        "the slow route has passed nothing"
    );

    let mut slow = Reader::new(&fresh);
    slow.take(8).await;
    settle(&*fresh, "slow", slow.position).await;
    let gone = fresh.prune(&AT_ONCE).await.unwrap();
    assert!(gone <= 8, "the slow route has passed 8, {gone} are gone");
    let rest: Vec<String> = slow.take(12).await.iter().map(label).collect();
    let expected: Vec<String> = all.iter().skip(8).map(label).collect();
    assert_eq!(rest, expected, "the slow route gets all the rest");

    remove(&fresh, "quick").await;
    settle(&*fresh, "slow", slow.position).await;
    prune_until(&fresh, AT_ONCE, &mut slow, 20 - gone).await;
    slow.expect_nothing_else().await;
}

async fn remove(fresh: &Fresh, route: &str) {
    let mut delete = Query::delete();
    delete
        .from_table(named(fresh.db(), Table::Cursor))
        .and_where(Expr::col(Alias::new("route")).eq(route));
    change(fresh.db(), &delete).await;
}

/// An entry younger than the retention period stays, although every route has passed it.
pub async fn prune_keeps_what_is_young(fresh: Fresh) {
    fill(&fresh, 10).await;
    settle(&*fresh, "slow", fresh.head().await.unwrap()).await;
    let young = Prune {
        keep: Duration::from_secs(3_600),
        ..AT_ONCE
    };
    assert_eq!(fresh.prune(&young).await.unwrap(), 0);
    assert_eq!(Reader::new(&fresh).rest().await.len(), 10);
}

/// A prune is short: it takes a batch and leaves the rest for the next.
pub async fn prune_removes_no_more_than_its_batch(fresh: Fresh) {
    fill(&fresh, 20).await;
    let mut reader = Reader::new(&fresh);
    reader.take(20).await;
    settle(&*fresh, "slow", reader.position).await;
    let small = Prune { batch: 3, ..AT_ONCE };
    let start = Instant::now();
    let mut gone = 0;
    while gone < 20 {
        let now = fresh.prune(&small).await.unwrap();
        assert!(now <= 3, "{now} are gone, at most 3 were asked for");
        gone += now;
        assert!(
            start.elapsed() < DEADLINE,
            "{gone} of 20 entries pruned in {DEADLINE:?}"
        );
        if now == 0 {
            commit(fresh.db(), "later", &["later"]).await;
            reader.take(1).await;
            settle(&*fresh, "slow", reader.position).await;
        }
    }
}

/// Writers do not notice retention that is under way: one that is open stays so, others come and go, and nothing of theirs is
/// missed.
pub async fn prune_never_blocks_a_writer(fresh: Fresh) {
    let writers = fresh.writers(3).await;
    fill(&fresh, 20).await;
    let mut reader = Reader::new(&fresh);
    let first = reader.take(20).await[0].id;
    settle(&*fresh, "slow", reader.position).await;
    let open = begin(&writers).await;
    append(&open, "held", &["held"]).await;
    let mut prune = pin!(fresh.prune(&AT_ONCE));
    if fresh.overlapping_writers {
        let lock = begin(&writers).await;
        lock_entry(&lock, first).await;
        assert!(
            timeout(A_WHILE, &mut prune).await.is_err(),
            "retention waits for a lock, so that it is under way"
        );
        let writing = async {
            commit(&writers, "free", &["free"]).await;
            reader.expect(&["free"]).await;
            append(&open, "held", &["held on"]).await;
            open.commit().await.unwrap();
        };
        timeout(DEADLINE, writing).await.expect("a writer waits for retention");
        assert!(
            timeout(Duration::ZERO, &mut prune).await.is_err(),
            "retention is still under way"
        );
        lock.rollback().await.unwrap();
    } else {
        assert!(
            timeout(A_WHILE, &mut prune).await.is_err(),
            "retention waits for the writer, not the writer for retention"
        );
        append(&open, "held", &["held on"]).await;
        open.commit().await.unwrap();
    }
    assert!(prune.await.unwrap() > 0, "retention removes what it was to remove");
    reader.expect(&["held", "held on"]).await;
    reader.expect_nothing_else().await;
}

/// Locks an entry of the log, as a reader may that is none of ours.
async fn lock_entry(tx: &Tx, id: i64) {
    let mut select = Query::select();
    select
        .column(Alias::new("id"))
        .from(named(tx, Table::Outbox))
        .and_where(Expr::col(Alias::new("id")).eq(id))
        .lock(LockType::Update);
    assert!(tx.query_one(&select).await.unwrap().is_some(), "there is no entry {id}");
}

/// Pruned entries are copied unchanged to the archive if that was asked for, and otherwise nowhere.
pub async fn prune_archives_when_asked(fresh: Fresh) {
    let all = fill(&fresh, 10).await;
    let mut reader = Reader::new(&fresh);
    reader.take(10).await;
    settle(&*fresh, "slow", reader.position).await;
    let archive = Prune {
        archive: true,
        ..AT_ONCE
    };
    prune_until(&fresh, archive, &mut reader, 10).await;
    let archived = archived(&fresh).await;
    let expected: Vec<(i64, String)> = all.iter().map(archive_row).collect();
    assert_eq!(
        archived.get(..10),
        Some(expected.as_slice()),
        "every entry under its id, with its key"
    );

    let before = archived.len();
    prune_until(&fresh, AT_ONCE, &mut reader, 1).await;
    assert_eq!(
        self::archived(&fresh).await.len(),
        before,
        "nothing is archived that was not to be"
    );
}

fn archive_row(entry: &Entry) -> (i64, String) {
    (entry.id, entry.event.aggregate_id.clone())
}

async fn archived(fresh: &Fresh) -> Vec<(i64, String)> {
    let mut select = Query::select();
    select
        .columns(["id", "aggregate_id"].map(Alias::new))
        .from(named(fresh.db(), Table::Audit))
        .order_by(Alias::new("id"), Order::Asc);
    let rows = fresh.db().query_all(&select).await.unwrap();
    rows.iter()
        .map(|row| (row.try_get("", "id").unwrap(), row.try_get("", "aggregate_id").unwrap()))
        .collect()
}

/// No column of an event can be changed once it is in the log.
pub async fn an_entry_is_immutable(fresh: Fresh) {
    fill(&fresh, 1).await;
    for column in [
        "payload",
        "headers",
        "event_type",
        "source",
        "aggregate_type",
        "aggregate_id",
        "event_id",
        "occurred_at",
    ] {
        let other = match column {
            "payload" | "headers" => "'{}'",
            "event_id" => "'01890000-0000-7000-8000-000000000000'",
            "occurred_at" => "'2020-01-01 00:00:00'",
            _ => "'other'",
        };
        let mut update = Query::update();
        update
            .table(named(fresh.db(), Table::Outbox))
            .value(Alias::new(column), Expr::cust(other));
        let error = fresh
            .db()
            .execute(&update)
            .await
            .map(|done| done.rows_affected())
            .unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("immutable") || words.contains("cannot be changed"),
            "{column}: the error says why: {words}"
        );
    }
    let entries = Reader::new(&fresh).rest().await;
    assert_eq!(entries.iter().map(label).collect::<Vec<_>>(), ["0"]);
}
