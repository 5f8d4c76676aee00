//! Retention never passes a cursor or a running replay, and archives in the same transaction.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::time::Duration;

use postroom::{Event, Outbox, Position, Prune};

use crate::fresh::{Fresh, event, settle};

const ALL: Prune = Prune {
    keep: Duration::ZERO,
    batch: 100,
    archive: false,
};

async fn with_entries(count: usize) -> Fresh {
    let fresh = Fresh::migrated().await;
    let events: Vec<Event> = (0..count).map(|n| event(&n.to_string())).collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    settle(&fresh.store).await;
    fresh
}

async fn cursor(fresh: &Fresh, route: &str, id: i64) {
    let position = Position { id, ..Position::START }.to_string();
    sqlx::query("replace into postroom_outbox_cursor (route, shard, position) values (?, 0, ?)")
        .bind(route)
        .bind(position)
        .execute(&fresh.pool)
        .await
        .unwrap();
}

async fn first(fresh: &Fresh) -> i64 {
    fresh.number("select coalesce(min(id), 0) from postroom_outbox").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slowest_cursor_holds_its_entries() {
    let fresh = with_entries(20).await;
    cursor(&fresh, "fast", 20).await;
    cursor(&fresh, "slow", 9).await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 9);
    assert_eq!(first(&fresh).await, 10);
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 0);
    cursor(&fresh, "slow", 10).await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 1);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_reads_nothing_is_removed() {
    let fresh = with_entries(3).await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 0);
    assert_eq!(first(&fresh).await, 1);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_replay_holds_its_entries() {
    let fresh = with_entries(20).await;
    cursor(&fresh, "fast", 20).await;
    fresh
        .run(
            "insert into postroom_outbox_replay (route, filter, per_second, next_id, until_id)
             values ('r', '{}', 1, 5, 20)",
        )
        .await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 4, "entry 5 is still wanted");
    fresh.run("update postroom_outbox_replay set state = 'done'").await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 16);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn young_entries_stay_and_batches_are_bounded() {
    let fresh = with_entries(20).await;
    cursor(&fresh, "fast", 20).await;
    let hour = Prune {
        keep: Duration::from_secs(3600),
        ..ALL
    };
    let ever = Prune {
        keep: Duration::MAX,
        ..ALL
    };
    assert_eq!(fresh.store.prune(&hour).await.unwrap(), 0);
    assert_eq!(fresh.store.prune(&ever).await.unwrap(), 0);
    assert_eq!(fresh.store.prune(&Prune { batch: 7, ..ALL }).await.unwrap(), 7);
    assert_eq!(first(&fresh).await, 8);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_is_archived_if_asked() {
    let fresh = with_entries(20).await;
    cursor(&fresh, "fast", 20).await;
    let archive = Prune {
        archive: true,
        batch: 8,
        ..ALL
    };
    assert_eq!(fresh.store.prune(&archive).await.unwrap(), 8);
    let archived = "select count(*) from postroom_audit_events where id <= 8 and payload like '\"%\"'";
    assert_eq!(fresh.number(archived).await, 8);
    assert_eq!(fresh.number("select count(*) from postroom_outbox").await, 12);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_prune_at_once_take_turns() {
    let fresh = with_entries(400).await;
    cursor(&fresh, "fast", 400).await;
    let other = fresh.second().await;
    settle(&fresh.store).await; // tells the other what is on disk
    let archive = Prune {
        archive: true,
        batch: 20,
        ..ALL
    };
    let work = async |store: &postroom_mysql::Mysql| {
        let mut removed = 0;
        for _ in 0..15 {
            removed += store.prune(&archive).await.unwrap();
        }
        removed
    };
    let (one, two) = tokio::join!(work(&fresh.store), work(&other));
    assert_eq!(one + two, 400);
    assert_eq!(fresh.number("select count(*) from postroom_audit_events").await, 400);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_go_on_after_everything_was_removed() {
    let fresh = with_entries(3).await;
    cursor(&fresh, "fast", 3).await;
    assert_eq!(fresh.store.prune(&ALL).await.unwrap(), 3);
    fresh.commit("next").await;
    assert_eq!(settle(&fresh.store).await, 4);
    let page = fresh
        .store
        .read(
            Position {
                id: 3,
                ..Position::START
            },
            10,
        )
        .await
        .unwrap();
    assert_eq!(page.entries[0].event.aggregate_id, "next");
    fresh.gone().await;
}
