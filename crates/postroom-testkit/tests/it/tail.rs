//! A tail reads every committed entry once, whether a pulse has made it readable or not.

use postroom::operate::Tail;
use postroom::{Event, append, parse_payload, table};
use postroom_testkit::{Fresh, fresh};

async fn commit(fresh: &Fresh, keys: &[&str]) {
    let event = |key: &&str| Event::new("a.b.v1", "thing", *key, parse_payload("{}").unwrap()).unwrap();
    let events: Vec<Event> = keys.iter().map(event).collect();
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, &events).await.unwrap();
    tx.commit().await.unwrap();
}

/// The keys of everything that a tail has not read yet.
async fn rest(tail: &mut Tail<'_>) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some(entries) = tail.next().await.unwrap() {
        keys.extend(entries.into_iter().map(|entry| entry.event.aggregate_id));
    }
    keys
}

async fn every_entry_is_read_once(fresh: Fresh) {
    commit(&fresh, &["1", "2"]).await;
    let mut from_head = Tail::from_head(&*fresh).await.unwrap();
    assert_eq!(rest(&mut from_head).await, [""; 0], "these are committed already");
    let mut all = Tail::from_beginning(&*fresh);
    assert_eq!(rest(&mut all).await, ["1", "2"], "no pulse has made them readable");
    fresh.catch_up().await;
    assert_eq!(
        rest(&mut all).await,
        [""; 0],
        "now they are in the log, and were read before"
    );
    commit(&fresh, &["3"]).await;
    fresh.catch_up().await;
    commit(&fresh, &["4"]).await;
    assert_eq!(
        rest(&mut all).await,
        ["3", "4"],
        "one from the log, one from beyond its end"
    );
    assert_eq!(rest(&mut from_head).await, ["3", "4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_a_tail_reads_every_entry_once() {
    every_entry_is_read_once(fresh::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_a_tail_reads_every_entry_once() {
    every_entry_is_read_once(fresh::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_a_tail_reads_every_entry_once() {
    every_entry_is_read_once(fresh::mysql().await).await;
}
