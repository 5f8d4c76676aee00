//! Tallies and tickets beyond their suites: what other programs see, and half-lost state.

use std::time::Duration;

use postroom_shared::SharedState;
use redis::AsyncTypedCommands;

use crate::shared_state::{change, keys};
use crate::site::private;

const COUNTER: &str = "count:comment:delta:{7}";

async fn sum(shared: &SharedState) -> i64 {
    shared.tally.read(&[COUNTER.to_owned()]).await.unwrap()[0]
}

#[tokio::test]
async fn n_12_a_counter_is_a_plain_number_that_other_programs_read() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let mut client = site.client().await;
    let changes = [1, 1, -5].map(|delta| change(COUNTER, delta));
    shared.tally.add(&changes).await.unwrap();
    assert_eq!(client.get(COUNTER).await.unwrap().as_deref(), Some("-3"));
    shared.tally.settle(&changes[..2]).await.unwrap();
    assert_eq!(client.get(COUNTER).await.unwrap().as_deref(), Some("-5"));
}

#[tokio::test]
async fn a_half_lost_counter_is_right_again_with_the_next_change() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let mut client = site.client().await;
    let check = async |lost: &str, is_forgotten: bool| {
        let [old, new] = [10, 1].map(|delta| change(COUNTER, delta));
        shared.tally.add(std::slice::from_ref(&old)).await.unwrap();
        site.client().await.del(lost).await.unwrap();
        shared.tally.add(std::slice::from_ref(&new)).await.unwrap();
        assert_eq!(sum(&shared).await, if is_forgotten { 1 } else { 11 }, "without {lost}");
        shared.tally.settle(&[old, new]).await.unwrap();
        assert_eq!(sum(&shared).await, 0, "without {lost}");
    };
    check(COUNTER, false).await;
    check(&format!("{COUNTER}:changes"), true).await;
    check(&format!("{COUNTER}:ends"), true).await;
    for key in keys(&site).await {
        client.del(&key).await.unwrap();
        client.lpush(&key, "no number").await.unwrap();
    }
    shared.tally.add(&[change(COUNTER, 3)]).await.unwrap();
    assert_eq!(sum(&shared).await, 3);
    client.incr(COUNTER, 100).await.unwrap();
    shared.tally.add(&[change(COUNTER, 4)]).await.unwrap();
    assert_eq!(sum(&shared).await, 7, "what was added by hand is gone");
    client.flushall().await.unwrap();
    assert_eq!(sum(&shared).await, 0);
}

/// Two thousand changes of one counter are several calls of the script.
#[tokio::test]
async fn a_large_batch_is_counted_whole() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let changes: Vec<_> = (0..2000).map(|_| change(COUNTER, 1)).collect();
    shared.tally.add(&changes).await.unwrap();
    shared.tally.add(&changes).await.unwrap();
    assert_eq!(sum(&shared).await, 2000);
    shared.tally.settle(&changes[..1500]).await.unwrap();
    assert_eq!(sum(&shared).await, 500);
}

#[tokio::test]
async fn redis_knows_no_ticket_only_its_hash() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let ticket = shared.tickets.issue("42", Duration::from_secs(30)).await.unwrap();
    let all = keys(&site).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0], format!("ticket:{}", postroom_shared::ticket::hash(&ticket)));
    let random = ticket.trim_start_matches("ticket_");
    assert!(!all[0].contains(random), "{all:?}");
    assert_eq!(shared.tickets.redeem(&ticket).await.unwrap().as_deref(), Some("42"));
    assert!(keys(&site).await.is_empty());
}
