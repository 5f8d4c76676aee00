//! Tests of SQLite alone, on real files. The conformance suite tests the contract of all stores.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test harness fails by panicking"
)]

mod emit;
mod exactness;
mod faults;
mod migrations;
mod other_languages;
#[cfg(unix)]
mod permission;
mod reading;
mod retention;
mod schedule;
mod setting;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postroom::{Event, Outbox, Page, Position, migration};
use postroom_sqlite::Sqlite;
use sea_orm::ConnectionTrait;
use serde_json::value::RawValue;
use tempfile::TempDir;

/// A fresh file with the platform's tables, removed at the end of the test.
pub(crate) struct Fixture {
    pub(crate) store: Sqlite,
    folder: TempDir,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = migrated(&folder.path().join("postroom.db")).await;
        Self { store, folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("postroom.db")
    }

    /// A second store on the same file, as another process would have it.
    pub(crate) async fn another(&self) -> Sqlite {
        open(&self.file()).await
    }

    pub(crate) async fn commit(&self, events: &[Event]) {
        let mut tx = self.store.begin().await.unwrap();
        postroom_sqlite::append(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(crate) async fn sql(&self, statement: &str) {
        self.store.db().execute_unprepared(statement).await.unwrap();
    }

    pub(crate) async fn cursor(&self, route: &str, id: i64) {
        let position = Position { id, ..Position::START };
        self.sql(&format!(
            "insert into postroom_outbox_cursor (route, shard, position) values ('{route}', 0, '{position}')
             on conflict do update set position = excluded.position"
        ))
        .await;
    }

    /// Everything that is readable, as the aggregate ids in order.
    pub(crate) async fn ids_read(&self) -> Vec<String> {
        let (entries, _) = drain(&self.store, Position::START, 100).await;
        entries
    }
}

pub(crate) async fn open(file: &Path) -> Sqlite {
    Sqlite::open(file.to_str().unwrap()).await.unwrap()
}

pub(crate) async fn migrated(file: &Path) -> Sqlite {
    let store = open(file).await;
    migration::up(store.db(), "postroom", store.migrations()).await.unwrap();
    store
}

pub(crate) async fn drain(store: &Sqlite, from: Position, limit: usize) -> (Vec<String>, Position) {
    let mut read = Vec::new();
    let mut at = from;
    loop {
        let page = store.read(at, limit).await.unwrap();
        if page.next == at {
            return (read, at);
        }
        read.extend(names(&page));
        at = page.next;
    }
}

pub(crate) fn names(page: &Page) -> Vec<String> {
    page.entries
        .iter()
        .map(|entry| entry.event.aggregate_id.clone())
        .collect()
}

pub(crate) fn event(aggregate_id: &str) -> Event {
    with_payload(aggregate_id, "{}")
}

pub(crate) fn with_payload(aggregate_id: &str, payload: &str) -> Event {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    Event::new("test.thing.happened.v1", "thing", aggregate_id, payload).unwrap()
}

pub(crate) fn numbered(count: usize) -> Vec<Event> {
    (1..=count).map(|n| event(&n.to_string())).collect()
}

/// Waits until the condition holds; panics with `what` after 20 s.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "waited 20 s for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
