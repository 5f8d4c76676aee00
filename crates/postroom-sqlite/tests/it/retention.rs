use std::time::Duration;

use postroom::{Outbox, Position, Prune};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Fixture, event, numbered};

const ALL: Prune = Prune {
    keep: Duration::ZERO,
    batch: 100_000,
    archive: false,
};

#[tokio::test]
async fn only_what_every_cursor_has_passed_is_removed() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(10)).await;
    assert_eq!(
        fixture.store.prune(&ALL).await.unwrap(),
        0,
        "without a cursor nobody has read anything"
    );
    fixture.cursor("fast", 10).await;
    fixture.cursor("slow", 4).await;
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 4);
    assert_eq!(fixture.ids_read().await, ["5", "6", "7", "8", "9", "10"]);
    fixture.cursor("slow", 10).await;
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 6);
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 0);
}

#[tokio::test]
async fn a_running_replay_keeps_what_it_has_not_read() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(10)).await;
    fixture.cursor("route", 10).await;
    fixture
        .sql(
            "insert into postroom_outbox_replay (route, filter, per_second, next_id, until_id, state)
             values ('route', '{}', 1, 6, 10, 'running'), ('route', '{}', 1, 2, 10, 'done')",
        )
        .await;
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 5);
    fixture
        .sql("update postroom_outbox_replay set state = 'canceled'")
        .await;
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 5);
}

#[tokio::test]
async fn only_old_entries_are_removed_and_a_young_one_stops_it() {
    let fixture = Fixture::new().await;
    let stamps = [
        "2020-01-01T00:00:00.000Z",
        "2020-01-02T00:00:00.000Z",
        "2999-01-01T00:00:00.000Z",
        "2020-01-03T00:00:00.000Z",
    ];
    for (n, stamp) in stamps.iter().enumerate() {
        fixture
            .sql(&format!(
                "insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload, created_at)
                 values ('a.b', 'a', '{n}', '1', '{stamp}')"
            ))
            .await;
    }
    fixture.cursor("route", 4).await;
    let century = Prune {
        keep: Duration::from_secs(100 * 365 * 86_400),
        ..ALL
    };
    assert_eq!(fixture.store.prune(&century).await.unwrap(), 0);
    let beyond = Prune {
        keep: Duration::MAX,
        ..ALL
    };
    assert_eq!(
        fixture.store.prune(&beyond).await.unwrap(),
        0,
        "older than the calendar is never"
    );
    let day = Prune {
        keep: Duration::from_secs(86_400),
        ..ALL
    };
    assert_eq!(fixture.store.prune(&day).await.unwrap(), 2);
    assert_eq!(fixture.ids_read().await, ["2", "3"]);
}

#[tokio::test]
async fn a_batch_is_a_limit() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(1200)).await;
    fixture.cursor("route", 1200).await;
    let some = |batch| Prune { batch, ..ALL };
    assert_eq!(fixture.store.prune(&some(0)).await.unwrap(), 0);
    assert_eq!(fixture.store.prune(&some(30)).await.unwrap(), 30);
    assert_eq!(fixture.store.prune(&some(1001)).await.unwrap(), 1001);
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 169);
}

#[tokio::test]
async fn archived_entries_are_moved_whole_and_cannot_be_changed() {
    let fixture = Fixture::new().await;
    fixture.commit(&[event("1").header("h", "v"), event("2")]).await;
    let sent = fixture.store.read(Position::START, 1).await.unwrap().entries[0].clone();
    fixture.cursor("route", 1).await;
    assert_eq!(fixture.store.prune(&Prune { archive: true, ..ALL }).await.unwrap(), 1);
    let mut tx = fixture.store.begin().await.unwrap();
    let (id, event_id, headers, payload): (i64, String, String, String) = sqlx::query_as(
        "select id, event_id, headers, payload from postroom_audit_events where archived_at is not null",
    )
    .fetch_one(&mut *tx)
    .await
    .unwrap();
    assert_eq!(
        (id, event_id, headers.as_str(), payload.as_str()),
        (sent.id, sent.event.id.to_string(), r#"{"h":"v"}"#, "{}")
    );
    let error = sqlx::query("update postroom_audit_events set payload = '1'")
        .execute(&mut *tx)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("postroom_audit_events is read-only"),
        "{error}"
    );
}

/// The pitfall of plain rowids: the id of a deleted row is drawn again, behind the cursor.
#[tokio::test]
async fn an_id_is_never_drawn_again_after_everything_was_removed() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(5)).await;
    fixture.cursor("route", 5).await;
    assert_eq!(fixture.store.prune(&ALL).await.unwrap(), 5);
    assert_eq!(
        fixture.store.pulse().await.unwrap().head,
        5,
        "the head does not fall back"
    );
    assert_eq!(fixture.store.head().await.unwrap().id, 5);
    let restarted = fixture.another().await;
    let at = Position {
        id: 5,
        ..Position::START
    };
    assert_eq!(restarted.read(at, 10).await.unwrap().next, at);
    fixture.commit(&[event("new")]).await;
    assert_eq!(crate::drain(&restarted, at, 10).await.0, ["new"]);
}

#[tokio::test]
async fn writers_go_on_while_a_large_part_is_removed() {
    let fixture = Fixture::new().await;
    for _ in 0..20 {
        fixture.commit(&numbered(1000)).await;
    }
    fixture.cursor("route", 20_000).await;
    let mut pruning = JoinSet::new();
    let store = fixture.another().await;
    pruning.spawn(async move { store.prune(&Prune { archive: true, ..ALL }).await.unwrap() });
    let mut slowest = Duration::ZERO;
    let mut commits = 0;
    while pruning.try_join_next().is_none() {
        let begun = Instant::now();
        fixture.commit(&[event("meanwhile")]).await;
        slowest = slowest.max(begun.elapsed());
        commits += 1;
    }
    assert!(commits > 5, "only {commits} commits while 20,000 entries were removed");
    assert!(slowest < Duration::from_secs(2), "a commit took {slowest:?}");
    assert_eq!(fixture.ids_read().await.len(), commits);
}
