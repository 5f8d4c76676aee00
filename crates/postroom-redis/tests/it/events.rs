//! Publishes and receives numbered events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom::{
    Batch, Broker, Destination, Entry, Event, Join, Mark, Message, Mode, Ordering, Receipt, Start, Subscription, Topic,
};
use postroom_redis::Redis;
use tokio::time::timeout;
use uuid::Uuid;

/// Timeout of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn name(what: &str) -> String {
    format!("{what}-{}", Uuid::now_v7())
}

/// Events numbered `from..to` with this many keys and this many bytes of padding.
pub(crate) fn entries(from: i64, to: i64, keys: i64, padding: usize) -> Vec<Entry> {
    let entry = |n: i64| {
        let payload = format!(r#"{{"n":{n},"pad":"{}"}}"#, "x".repeat(padding));
        let payload = serde_json::value::RawValue::from_string(payload).unwrap();
        Entry {
            id: n,
            event: Event::new("shop.order.paid.v1", "order", format!("key-{}", n % keys), payload).unwrap(),
            created_at: postroom::clock::now(),
        }
    };
    (from..to).map(entry).collect()
}

pub(crate) fn publisher(broker: &Redis, topic: &str) -> Arc<dyn Destination> {
    broker.publisher(topic.parse::<Topic>().unwrap(), Mode::Binary)
}

pub(crate) async fn deliver(publisher: &Arc<dyn Destination>, entries: &[Entry], ordering: Ordering) -> Vec<Receipt> {
    let entries: Vec<&Entry> = entries.iter().collect();
    let batch = Batch {
        entries: &entries,
        ordering,
    };
    let receipts = timeout(PATIENCE, publisher.deliver(&batch)).await.unwrap();
    assert_eq!(receipts.len(), entries.len());
    receipts
}

/// Publishes events, and asserts that all are delivered by the first call.
pub(crate) async fn publish(broker: &Redis, topic: &str, entries: &[Entry]) {
    let publisher = publisher(broker, topic);
    for batch in entries.chunks(500) {
        let receipts = deliver(&publisher, batch, Ordering::Key).await;
        assert!(
            receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
            "{receipts:?}"
        );
    }
}

pub(crate) async fn join(broker: &Redis, group: &str, topic: &str) -> Box<dyn Subscription> {
    let topics = [topic.to_owned()];
    broker
        .subscribe(Join::new(group, &topics, Start::Beginning))
        .await
        .unwrap()
}

pub(crate) async fn next(subscription: &mut Box<dyn Subscription>, max: usize) -> Vec<Message> {
    timeout(PATIENCE, subscription.next(max)).await.unwrap().unwrap()
}

/// Receives and acknowledges this many messages.
pub(crate) async fn receive(subscription: &mut Box<dyn Subscription>, count: usize) -> Vec<i64> {
    let mut came = Vec::new();
    while came.len() < count {
        let messages = next(subscription, 100).await;
        came.extend(messages.iter().map(number));
        subscription.ack(&marks(&messages)).await.unwrap();
    }
    came
}

pub(crate) fn number(message: &Message) -> i64 {
    message.event().unwrap().decode::<serde_json::Value>().unwrap()["n"]
        .as_i64()
        .unwrap()
}

pub(crate) fn marks(messages: &[Message]) -> Vec<Mark> {
    messages.iter().map(|message| message.mark.clone()).collect()
}

/// Asserts that each of `0..count` was received, and that the first deliveries of every key are in order.
pub(crate) fn assert_whole(came: &[i64], count: i64, keys: i64) {
    let mut seen = BTreeSet::new();
    let firsts: Vec<i64> = came.iter().copied().filter(|n| seen.insert(*n)).collect();
    assert_eq!(seen, (0..count).collect(), "missing or unexpected events");
    for key in 0..keys {
        let of_key: Vec<i64> = firsts.iter().copied().filter(|n| n % keys == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}
