//! `postroom bench relay --to` each broker: it runs to its end, says what it was asked for and leaves nothing behind.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use postroom_testkit::wait::{until, until_some};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::Value;

use crate::bench::{are_numbers, are_positive};
use crate::broker::variable;
use crate::harness::Place;

const PATIENCE: Duration = Duration::from_secs(30);

/// A short run; answers the topic it had.
async fn runs(url: &str, flags: &[&str]) -> String {
    let counts = ["--events", "1500", "--rate", "50", "--seconds", "1"];
    let flags = [&["bench", "relay", "--to", url], &counts[..], flags].concat();
    let document: Value = Place::new().json(&flags).await;
    are_positive(
        &document,
        &[
            "events_per_s",
            "flood_events_per_s",
            "steady_events_per_s",
            "limit_events_per_s",
            "ratio_to_limit",
        ],
    );
    for (half, most) in [("p50_ms", "p99_ms"), ("steady_p50_ms", "steady_p99_ms")] {
        are_numbers(&document, &[half, most]);
        assert!(document[half].as_f64() <= document[most].as_f64(), "{document}");
    }
    assert_eq!(document["confirmed"], 1500 + 1500 + 50, "{document}");
    let repeat = document["on"]["repeat"].as_str().unwrap();
    assert!(repeat.contains("--to ") && !repeat.contains("guest:guest"), "{repeat}");
    document["topic"].as_str().unwrap().to_owned()
}

/// How many partitions a topic has; none, if it is gone.
fn partitions(topic: &str) -> usize {
    let servers = variable("POSTROOM_TEST_KAFKA_URL").replace("kafka://", "");
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("allow.auto.create.topics", "false")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    metadata.topics().iter().map(|topic| topic.partitions().len()).sum()
}

/// The broker forgets a topic a moment after it said so.
async fn is_gone_from_kafka(topic: &str) {
    until("the topic is gone", || async { partitions(topic) == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bench_relay_to_kafka_says_how_near_it_comes_to_librdkafka() {
    let topic = runs(&variable("POSTROOM_TEST_KAFKA_URL"), &[]).await;
    is_gone_from_kafka(&topic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bench_relay_to_kafka_in_transactions() {
    let topic = runs(&variable("POSTROOM_TEST_KAFKA_URL"), &["--transactional"]).await;
    is_gone_from_kafka(&topic).await;
}

#[tokio::test]
async fn bench_relay_to_rabbitmq_says_how_near_it_comes_to_lapin() {
    let url = variable("POSTROOM_TEST_RABBITMQ_URL");
    let topic = runs(&url, &[]).await;
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default())
        .await
        .unwrap();
    let (queue, exchange) = (format!("{topic}:{topic}:0"), topic);
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let channel = connection.create_channel().await.unwrap();
    let found = channel
        .queue_declare(queue.into(), passive, FieldTable::default())
        .await;
    assert!(found.unwrap_err().to_string().contains("NOT-FOUND"));
    let passive = ExchangeDeclareOptions {
        passive: true,
        ..ExchangeDeclareOptions::default()
    };
    let channel = connection.create_channel().await.unwrap();
    let kind = lapin::ExchangeKind::Topic;
    let found = channel
        .exchange_declare(exchange.into(), kind, passive, FieldTable::default())
        .await;
    assert!(found.unwrap_err().to_string().contains("NOT-FOUND"));
}

/// The keys of benches on the server.
async fn keys(url: &str) -> Vec<String> {
    let mut connection = redis::Client::open(url)
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let mut keys = redis::cmd("KEYS");
    keys.arg("*postroom-bench-*");
    keys.query_async(&mut connection).await.unwrap()
}

#[tokio::test]
async fn bench_relay_to_redis_says_how_near_it_comes_to_xadd() {
    let url = variable("POSTROOM_TEST_REDIS_URL");
    let topic = runs(&url, &[]).await;
    let left: Vec<String> = keys(&url)
        .await
        .into_iter()
        .filter(|key| key.contains(&topic))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_bench_that_is_interrupted_removes_its_topic() {
    let url = format!("{}7", variable("POSTROOM_TEST_REDIS_URL")); // a database of its own
    let before = keys(&url).await;
    let place = Place::new();
    let flags = ["bench", "relay", "--to", &url, "--seconds", "600"];
    let child = place.command(&flags).spawn().unwrap();
    let new = || async { keys(&url).await.into_iter().find(|key| !before.contains(key)) };
    let made = until_some("it makes a topic", new).await;
    let pid = child.id().unwrap().to_string();
    let killed = tokio::process::Command::new("kill").args(["-s", "INT", &pid]).status();
    assert!(killed.await.unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let said = ended.unwrap_or_else(|_| panic!("it does not end")).unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let left: Vec<String> = keys(&url).await.into_iter().filter(|key| *key == made).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_broker_without_transactions_says_so() {
    let url = variable("POSTROOM_TEST_REDIS_URL");
    let flags = ["bench", "relay", "--to", &url, "--transactional"];
    let refused = Place::new().fails(&flags).await;
    assert!(refused.contains("redis has no transactions"), "{refused}");
}
