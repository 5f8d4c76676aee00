//! A transaction that stays open for a minute delays its own events and nobody else's.

#![expect(clippy::unwrap_used, reason = "a test harness: what is missing has failed")]

use std::time::Duration;

use postroom::{Event, Position, table};
use postroom_proof::Change;
use postroom_testkit::{Fresh, fresh};
use tokio::time::{Instant, sleep};

/// How long the transaction stays open.
const OPEN: Duration = Duration::from_secs(60);
/// How long any other event may take on a busy machine; a reader that waits for the open one takes a minute.
const PROMPT: Duration = Duration::from_secs(5);

fn event(key: &str, ver: u32) -> Event {
    Event::of(&Change {
        key: key.to_owned(),
        ver,
    })
    .unwrap()
}

/// Reads on until something new has come; answers its keys.
async fn next(fresh: &Fresh, position: &mut Position) -> Vec<String> {
    loop {
        fresh.pulse().await.unwrap();
        let page = fresh.read(*position, 100).await.unwrap();
        *position = page.next;
        if !page.entries.is_empty() {
            return page
                .entries
                .iter()
                .map(|entry| entry.event.aggregate_id.clone())
                .collect();
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn delays_only_its_own_events(fresh: Fresh) {
    let slow = table::begin(fresh.db()).await.unwrap();
    postroom::append(&slow, &[event("slow", 1)]).await.unwrap();
    let (begun, mut position, mut ver) = (Instant::now(), Position::START, 0);
    while begun.elapsed() < OPEN {
        ver += 1;
        let tx = table::begin(fresh.db()).await.unwrap();
        postroom::append(&tx, &[event("quick", ver)]).await.unwrap();
        tx.commit().await.unwrap();
        let seen = tokio::time::timeout(PROMPT, next(&fresh, &mut position)).await;
        assert_eq!(seen.expect("an open transaction delays nobody else"), ["quick"]);
        sleep(Duration::from_millis(50)).await;
    }
    slow.commit().await.unwrap();
    let seen = tokio::time::timeout(PROMPT, next(&fresh, &mut position)).await;
    assert_eq!(seen.expect("its own events come after its commit"), ["slow"]);
    assert!(ver > 100, "only {ver} events beside it prove little");
}

#[tokio::test]
async fn a_transaction_open_for_a_minute_delays_only_its_own_events() {
    tokio::join!(
        async { delays_only_its_own_events(fresh::postgres().await).await },
        async { delays_only_its_own_events(fresh::mysql().await).await },
    );
}
