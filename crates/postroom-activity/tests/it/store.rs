//! The store: each event once, in whatever batches and transactions it comes.

use std::collections::{BTreeMap, BTreeSet};

use postroom::{Inspect, table};
use postroom_activity::export::{Export, Format};
use postroom_activity::query::{self, EventFilter};
use postroom_activity::{Activity, ActivityEvent, Orchestrator, Stored};
use postroom_testkit::{Fresh, fresh, half_way};
use sea_orm::{ConnectionTrait as _, DbBackend};
use serde_json::json;
use time::macros::datetime;
use tokio::task::JoinSet;

postroom_testkit::on_each_database! {
    an_event_is_stored_once: an_event_is_stored_once_sqlite, an_event_is_stored_once_postgres, an_event_is_stored_once_mariadb;
    everything_comes_back: everything_comes_back_sqlite, everything_comes_back_postgres, everything_comes_back_mariadb;
    an_export_is_whole: an_export_is_whole_sqlite, an_export_is_whole_postgres, an_export_is_whole_mariadb;
    writers_at_once: writers_at_once_sqlite, writers_at_once_postgres, writers_at_once_mariadb;
}

#[tokio::test]
async fn a_migration_that_broke_off_is_run_again_mariadb() {
    let migrations = Activity::default().module().migrations(DbBackend::MySql);
    half_way::goes_on(&fresh::mysql().await, "activity", &migrations).await;
}

async fn migrated(fresh: &Fresh) {
    let store = fresh.store();
    Activity::default().module().migrate(&*store).await.unwrap();
}

fn numbered(number: usize) -> ActivityEvent {
    let mut event = ActivityEvent::new("page.viewed", "v1").property("number", number);
    event.event_id = format!("event-{number}");
    event.occurred_at = datetime!(2026-02-18 10:00 UTC);
    event
}

async fn store(store: &dyn Inspect, events: &[ActivityEvent]) -> Vec<Stored> {
    let tx = table::begin(store.db()).await.unwrap();
    let answers = Orchestrator::without_sinks(crate::privacy())
        .handle_client_events(&tx, events.to_vec())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    answers
}

/// Several pages, all with the same time: each event has one line.
async fn an_export_is_whole(fresh: Fresh) {
    let count = 2 * usize::try_from(query::PAGE_MAX).unwrap() + 1;
    migrated(&fresh).await;
    let events: Vec<ActivityEvent> = (0..count).map(numbered).collect();
    for batch in events.chunks(500) {
        store(&*fresh.store(), batch).await;
    }
    for (format, titles) in [(Format::Jsonl, 0), (Format::Csv, 1)] {
        let mut export = Export::new(EventFilter::default(), format);
        let mut text = String::new();
        while let Some(lines) = export.next(fresh.db()).await.unwrap() {
            text.push_str(&lines);
        }
        let exported: BTreeSet<&str> = text.lines().skip(titles).collect();
        assert_eq!(exported.len(), count, "{format:?}");
        assert_eq!(text.lines().count(), count + titles, "{format:?}");
        assert_eq!(text.starts_with("id,event_id,"), titles == 1, "{format:?}");
    }
}

async fn an_event_is_stored_once(fresh: Fresh) {
    migrated(&fresh).await;
    let first: Vec<ActivityEvent> = (0..10).map(numbered).collect();
    assert_eq!(store(&*fresh.store(), &first).await, [Stored::New; 10]);
    assert_eq!(store(&*fresh.store(), &first).await, [Stored::Known; 10]);
    // Known and new ones mixed, and one twice in the same batch.
    let mixed: Vec<ActivityEvent> = [3, 12, 7, 11, 12, 0, 13].into_iter().map(numbered).collect();
    let expected = [
        Stored::Known,
        Stored::New,
        Stored::Known,
        Stored::New,
        Stored::Known,
        Stored::Known,
        Stored::New,
    ];
    assert_eq!(store(&*fresh.store(), &mixed).await, expected);
    let all = query::find(fresh.db(), &EventFilter::default(), None, 1_000)
        .await
        .unwrap();
    assert_eq!(all.events.len(), 13);
    // More than one statement takes.
    let many: Vec<ActivityEvent> = (0..2_500).map(numbered).collect();
    let new = store(&*fresh.store(), &many).await;
    assert_eq!(new.iter().filter(|answer| **answer == Stored::New).count(), 2_500 - 13);
}

/// All columns, with the hardest values: what was written is read.
async fn everything_comes_back(fresh: Fresh) {
    migrated(&fresh).await;
    let mut event = ActivityEvent::new("review.created", "v1")
        .member(i64::MAX)
        .property("text", "한국어 😀 \" \\ ' % _")
        .property("numbers", json!([0, -1, 1.5, 9_007_199_254_740_993_i64, u64::MAX]))
        .property("nested", json!({ "a": [null, true, { "b": {} }] }));
    let text = |length: usize| Some("가".repeat(length));
    event.anonymous_id = text(100);
    event.session_id = text(100);
    event.request_path = text(255);
    event.request_method = Some("DELETE".to_owned());
    event.device_id = text(100);
    event.platform = text(30);
    event.app_version = text(30);
    event.locale = text(20);
    let at = event.occurred_at;
    event.occurred_at = at.replace_nanosecond(at.millisecond() as u32 * 1_000_000).unwrap();
    event.check().unwrap();
    store(&*fresh.store(), std::slice::from_ref(&event)).await;
    let stored = query::find(fresh.db(), &EventFilter::default(), None, 1).await.unwrap();
    assert_eq!(stored.events[0].event, event);
}

/// Writers that store the same events at the same time: each event has one row.
async fn writers_at_once(fresh: Fresh) {
    migrated(&fresh).await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let db = fresh.store();
        writers.spawn(async move {
            for batch in 0..10 {
                let events: Vec<ActivityEvent> =
                    (0..20).map(|n| numbered(batch * 20 + (n + writer * 5) % 20)).collect();
                // Sorted, so that the writers lock in the same order.
                let events: BTreeMap<String, ActivityEvent> = events
                    .into_iter()
                    .map(|event| (event.event_id.clone(), event))
                    .collect();
                let events: Vec<ActivityEvent> = events.into_values().collect();
                store(&*db, &events).await;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let count = fresh.db().query_one_raw(sea_orm::Statement::from_string(
        fresh.db().get_database_backend(),
        "select count(*) from user_activity_event",
    ));
    let count: i64 = count.await.unwrap().unwrap().try_get_by_index(0).unwrap();
    assert_eq!(count, 200);
}
