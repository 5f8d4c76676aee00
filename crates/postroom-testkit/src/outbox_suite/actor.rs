//! The two who act in every clause: somebody who writes labelled events, and a reader who must get them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a clause asserts by panicking")]

use postroom::{Transaction, Tx};
use std::sync::Arc;
use std::time::Duration;

use postroom::{Entry, Event, Inspect, Position, table};
use sea_orm::{ConnectionTrait, DatabaseConnection, StatementBuilder};
use serde_json::value::to_raw_value;
use tokio::time::{Instant, sleep};

use crate::Fresh;

/// A committed entry must be readable within this time. It is long: the lease of a dropped store object may have to expire.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// The interval between two reads.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Long enough to see that a writer or reader waits.
pub(super) const A_WHILE: Duration = Duration::from_millis(300);

const FENCE: &str = "fence";

/// An event of the thing `key` that says `label`.
pub(super) fn event(key: &str, label: &str) -> Event {
    Event::new("suite.happened.v1", "thing", key, to_raw_value(label).unwrap()).unwrap()
}

/// The label in the payload of an entry.
pub(super) fn label(entry: &Entry) -> String {
    entry.event.decode().unwrap()
}

pub(super) async fn begin(db: &DatabaseConnection) -> Tx {
    table::begin(db).await.unwrap()
}

/// Changes something and returns when that is committed: behind a pooler a statement alone may commit after it returns.
pub(super) async fn change(db: &DatabaseConnection, statement: &impl StatementBuilder) {
    let tx = begin(db).await;
    tx.execute(statement).await.unwrap();
    tx.commit().await.unwrap();
}

/// Emits labels of one key, in this order, in somebody's transaction.
pub(super) async fn append(tx: &impl Transaction, key: &str, labels: &[&str]) {
    let events: Vec<Event> = labels.iter().map(|label| event(key, label)).collect();
    postroom::append(tx, &events).await.unwrap();
}

/// Emits labels of one key in a transaction of their own.
pub(super) async fn commit(db: &DatabaseConnection, key: &str, labels: &[&str]) {
    let tx = begin(db).await;
    append(&tx, key, labels).await;
    tx.commit().await.unwrap();
}

/// Reads on from where it stands.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    store: Arc<dyn Inspect>,
    pub(super) position: Position,
}

impl Reader {
    pub(super) fn new(fresh: &Fresh) -> Self {
        Self::at(fresh.store(), Position::START)
    }

    pub(super) fn at(store: Arc<dyn Inspect>, position: Position) -> Self {
        Self { store, position }
    }

    /// The next `count` entries, however long they take to become readable, and not one more.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Entry> {
        let start = Instant::now();
        let mut taken = Vec::new();
        while taken.len() < count {
            self.store.pulse().await.unwrap();
            let page = self.store.read(self.position, count - taken.len()).await.unwrap();
            let has_moved = page.next != self.position;
            assert!(
                page.entries.is_empty() || has_moved,
                "a page with entries moves the position"
            );
            assert!(
                page.entries.len() <= count - taken.len(),
                "a page holds no more than was asked for"
            );
            self.position = page.next;
            taken.extend(page.entries.iter().cloned());
            if !has_moved {
                let labels: Vec<String> = taken.iter().map(label).collect();
                assert!(
                    start.elapsed() < DEADLINE,
                    "{} of {count} entries came in {DEADLINE:?}: {labels:.1000?}",
                    taken.len()
                );
                sleep(LOOK).await;
            }
        }
        taken
    }

    /// The next entries are these, in this order.
    pub(super) async fn expect(&mut self, labels: &[&str]) {
        let found: Vec<String> = self.take(labels.len()).await.iter().map(label).collect();
        assert_eq!(found, labels, "the next entries, in order");
    }

    /// Asserts that every entry committed until now has been read: the next entry is one that this function commits.
    pub(super) async fn expect_nothing_else(&mut self) {
        commit(self.store.db(), FENCE, &[FENCE]).await;
        self.expect(&[FENCE]).await;
        let more = self.rest().await;
        assert!(
            more.is_empty(),
            "nothing follows what was committed last, but {:?}",
            more.iter().map(label).collect::<Vec<_>>()
        );
    }

    /// Everything readable from here on, without waiting for anything; page by page.
    pub(super) async fn rest(&mut self) -> Vec<Entry> {
        self.rest_in_pages(100).await
    }

    pub(super) async fn rest_in_pages(&mut self, limit: usize) -> Vec<Entry> {
        let mut found = Vec::new();
        loop {
            let page = self.store.read(self.position, limit).await.unwrap();
            assert!(page.entries.len() <= limit, "a page holds no more than was asked for");
            found.extend(page.entries.iter().cloned());
            if page.next == self.position {
                assert!(page.entries.is_empty(), "a page with entries moves the position");
                return found;
            }
            self.position = page.next;
        }
    }
}

/// Commits `count` events in transactions of one, of the keys `k0` to `k9` in turn, and waits until all are readable.
pub(super) async fn fill(fresh: &Fresh, count: usize) -> Vec<Entry> {
    for number in 0..count {
        commit(fresh.db(), &format!("k{}", number % 10), &[&number.to_string()]).await;
    }
    Reader::new(fresh).take(count).await
}

/// Waits until `holds` for what `look` finds.
pub(super) async fn until<T: std::fmt::Debug, F: Future<Output = T>>(
    what: &str,
    mut look: impl FnMut() -> F,
    holds: impl Fn(&T) -> bool,
) -> T {
    let start = Instant::now();
    loop {
        let found = look().await;
        if holds(&found) {
            return found;
        }
        if start.elapsed() > DEADLINE {
            panic!("{what}: not after {DEADLINE:?}, but {found:?}");
        }
        sleep(LOOK).await;
    }
}
