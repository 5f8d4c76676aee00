//! The contract of a [`Destination`], one function per clause.
//!
//! An adapter runs all of them on its real service with one line:
//! `postroom_testkit::destination_suite!(shared, private);`, two functions that open a [`Site`]. A clause panics when the contract is broken.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a clause asserts: what it meets in vain has failed"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, Event, Ordering, Receipt};
use tokio::time::timeout;

/// A call that has not ended by then hangs.
const CALL_MAX: Duration = Duration::from_secs(60);

/// A destination, and a look at its other side.
#[async_trait]
pub trait Site: Send {
    /// The destination under test.
    fn destination(&self) -> Arc<dyn Destination>;

    /// An event of this key that the other side does not take, however often it is sent.
    fn refused(&self, key: &str) -> Event;

    /// Everything that has arrived so far, in order of arrival; waits until it is at least `count`, or long enough.
    async fn arrived(&mut self, count: usize) -> Vec<Event>;

    /// Takes the other side away.
    async fn stop(&mut self);

    /// Brings it back.
    async fn start(&mut self);
}

/// Makes every clause a test of its own: `destination_suite!(shared, private);`. Only clauses that take the other side away
/// use a private one.
#[macro_export]
macro_rules! destination_suite {
    ($shared:path, $private:path) => {
        $crate::destination_suite! { $private; a_destination_that_is_away_says_so_and_takes_everything_later }
        $crate::destination_suite! { $shared;
            every_entry_has_a_receipt_and_arrives_whole
            keys_arrive_in_order
            what_is_refused_holds_its_key
            what_is_refused_holds_a_strict_line
            what_is_refused_holds_nothing_without_order
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let site = $open().await;
                $crate::destination_suite::$clause(site).await;
            }
        )*
    };
}

fn entry(id: i64, key: &str) -> Entry {
    entry_with(id, key, format!("{{\"n\":{id}}}"))
}

fn entry_with(id: i64, key: &str, payload: String) -> Entry {
    let payload = serde_json::value::RawValue::from_string(payload).expect("JSON");
    Entry {
        id,
        event: Event::new("suite.noted.v1", "suite", key, payload).expect("an event"),
        created_at: postroom::clock::now(),
    }
}

fn refused(id: i64, key: &str, site: &impl Site) -> Entry {
    Entry {
        event: site.refused(key),
        ..entry(id, key)
    }
}

async fn deliver(site: &impl Site, entries: &[Entry], ordering: Ordering) -> Vec<Receipt> {
    let entries: Vec<&Entry> = entries.iter().collect();
    let batch = Batch {
        entries: &entries,
        ordering,
    };
    let destination = site.destination();
    let receipts = timeout(CALL_MAX, destination.deliver(&batch)).await;
    let receipts = receipts.expect("a call ends");
    assert_eq!(receipts.len(), entries.len(), "one receipt per entry");
    receipts
}

/// The entry ids of the events that arrived, in order of arrival.
async fn arrived(site: &mut impl Site, entries: &[Entry], count: usize) -> Vec<i64> {
    let numbers: HashMap<_, _> = entries.iter().map(|entry| (entry.event.id, entry.id)).collect();
    let arrived = site.arrived(count).await;
    arrived.iter().map(|event| numbers[&event.id]).collect()
}

/// Contract 1: one receipt per entry; and what is delivered is all there.
pub async fn every_entry_has_a_receipt_and_arrives_whole(mut site: impl Site) {
    assert_eq!(deliver(&site, &[], Ordering::Key).await, []);
    let payload = r#"{"text":"한글 \"q\" \u00e9","big":12345678901234567890.5,"list":[null,true]}"#;
    let mut sent = entry_with(7, "a key / with: ünusual 문자", payload.to_owned());
    sent.event.source = "suite".to_owned();
    sent.event = sent.event.header("tenant", "acme é").header("causationid", "42");
    assert_eq!(
        deliver(&site, &[sent.clone()], Ordering::Key).await,
        [Receipt::Delivered]
    );
    let came = site.arrived(1).await;
    let shown = |event: &Event| serde_json::to_value(event).expect("JSON");
    assert_eq!(came.iter().map(shown).collect::<Vec<_>>(), [shown(&sent.event)]);
    assert_eq!(came[0].payload.get(), payload, "the payload is not rewritten");
}

/// Contract 2: entries of one lane are delivered in order, over many batches.
pub async fn keys_arrive_in_order(mut site: impl Site) {
    let entries: Vec<Entry> = (0..1000).map(|n| entry(n, &format!("key-{}", n % 17))).collect();
    for batch in entries.chunks(150) {
        let receipts = deliver(&site, batch, Ordering::Key).await;
        assert!(
            receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
            "{receipts:?}"
        );
    }
    let came = arrived(&mut site, &entries, entries.len()).await;
    assert_eq!(came.len(), entries.len());
    for key in 0..17 {
        let of_key: Vec<i64> = came.iter().copied().filter(|n| n % 17 == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}

async fn around_a_refused_one(mut site: impl Site, ordering: Ordering, expected: &str, came: &[i64]) {
    let entries = [
        entry(1, "a"),
        entry(2, "b"),
        refused(3, "a", &site),
        entry(4, "a"),
        entry(5, "b"),
        entry(6, "a"),
    ];
    let receipts = deliver(&site, &entries, ordering).await;
    let letters: String = receipts
        .iter()
        .map(|receipt| match receipt {
            Receipt::Delivered => '+',
            Receipt::Rejected(_) | Receipt::Refused(_) => '!',
            Receipt::Held => '.',
            Receipt::Unavailable { .. } => '?',
        })
        .collect();
    assert_eq!(letters, expected, "{receipts:?}");
    let mut arrived = arrived(&mut site, &entries, came.len()).await;
    arrived.sort_unstable();
    assert_eq!(arrived, came);
}

/// Contract 2: what follows an entry that was not delivered, on its key, is held and was not sent.
pub async fn what_is_refused_holds_its_key(site: impl Site) {
    around_a_refused_one(site, Ordering::Key, "++!.+.", &[1, 2, 5]).await;
}

/// Contract 2 on a strict route: everything after it is held.
pub async fn what_is_refused_holds_a_strict_line(site: impl Site) {
    around_a_refused_one(site, Ordering::Strict, "++!...", &[1, 2]).await;
}

/// Contract 2 on a route without order: nothing is held.
pub async fn what_is_refused_holds_nothing_without_order(site: impl Site) {
    around_a_refused_one(site, Ordering::None, "++!+++", &[1, 2, 4, 5, 6]).await;
}

/// Contract 3 and 4: a call ends while the other side is away and claims nothing; later, everything arrives in order.
pub async fn a_destination_that_is_away_says_so_and_takes_everything_later(mut site: impl Site) {
    let entries: Vec<Entry> = (0..20).map(|n| entry(n, &format!("key-{}", n % 3))).collect();
    assert_eq!(
        deliver(&site, &entries[..2], Ordering::Key).await,
        [Receipt::Delivered, Receipt::Delivered]
    );
    site.stop().await;
    for receipt in deliver(&site, &entries[2..], Ordering::Key).await {
        assert!(
            matches!(receipt, Receipt::Unavailable { .. } | Receipt::Held),
            "{receipt:?}"
        );
    }
    site.start().await;
    let mut rest = &entries[2..];
    for _ in 0..60 {
        let receipts = deliver(&site, rest, Ordering::Strict).await;
        let delivered = receipts
            .iter()
            .take_while(|receipt| **receipt == Receipt::Delivered)
            .count();
        rest = &rest[delivered..];
        if rest.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(rest.is_empty(), "it does not come back");
    let mut came = arrived(&mut site, &entries, entries.len()).await;
    let mut seen = std::collections::HashSet::new();
    came.retain(|n| seen.insert(*n)); // what was under way when it went away may have arrived twice
    assert_eq!(came.len(), entries.len(), "{came:?}");
    for key in 0..3 {
        let of_key: Vec<i64> = came.iter().copied().filter(|n| n % 3 == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}
