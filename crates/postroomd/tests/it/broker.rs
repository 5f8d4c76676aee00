//! The same module, fed straight from the outbox or through a broker: one line of configuration.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use crate::harness::Place;

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set; run `cargo xtask test`, or `eval \"$(cargo xtask services up)\"`")
    })
}

/// A folder configured for this broker, with topics and groups of its own.
fn place(broker: Option<(&str, &str)>) -> Place {
    let place = Place::new();
    let toml = match broker {
        None => String::new(),
        Some((name, address)) => format!(
            "[modules.hello]\nbroker = \"{name}\"\n[brokers.{name}]\nurl = \"{}\"\nprefix = \"test-{}-\"\n",
            variable(address),
            uuid::Uuid::now_v7()
        ),
    };
    place.configure(&toml);
    place
}

/// Orders get their receipts, and what a subscriber fails on for good is a dead letter that can be retried.
pub(crate) async fn works(place: &Place) {
    let up = place.start(&["up"]).await;
    let mut orders = Vec::new();
    for _ in 0..3 {
        let order = r#"{"customer":"ada","item":"lamp","quantity":2}"#;
        let (code, placed) = up.request("POST", "/hello/orders", order).await;
        assert_eq!(code, 201, "{placed}");
        let placed: serde_json::Value = serde_json::from_str(&placed).unwrap();
        orders.push(format!("/hello/orders/{}", placed["order_id"].as_str().unwrap()));
    }
    for order in &orders {
        up.wait_for(order, |code, body| code == 200 && body.contains("2 x lamp for ada"))
            .await;
    }
    up.stop().await;
    let routes = place.json(&["status"]).await;
    let names: Vec<&str> = routes["routes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|route| route["route"].as_str())
        .collect();
    assert!(names.contains(&"hello-receipts"), "{names:?}");
}

#[tokio::test]
async fn it_works_straight_from_the_outbox() {
    works(&place(None)).await;
}

#[tokio::test]
async fn it_works_through_rabbitmq() {
    works(&place(Some(("rabbitmq", "POSTROOM_TEST_RABBITMQ_URL")))).await;
}

#[tokio::test]
async fn it_works_through_redis() {
    works(&place(Some(("redis", "POSTROOM_TEST_REDIS_URL")))).await;
}

#[tokio::test]
async fn it_works_through_kafka_once_its_topics_are_there() {
    let place = place(Some(("kafka", "POSTROOM_TEST_KAFKA_URL")));
    let plan = place.ok(&["topics", "plan"]).await;
    assert_eq!(
        plan.lines().count(),
        4,
        "two topics and their dead letters are missing: {plan}"
    );
    place.ok(&["topics", "apply"]).await;
    let plan = place.ok(&["topics", "plan"]).await;
    assert!(plan.contains("4 topics, nothing to do"), "{plan}");
    works(&place).await;
}

#[tokio::test]
async fn it_works_through_kafka_in_transactions_on_topics_as_configured() {
    let place = Place::new();
    place.configure(&format!(
        "[modules.hello]\nbroker = \"kafka\"\n[brokers.kafka]\nurl = \"{}\"\nprefix = \"test-{}-\"\nproducer = \"transactional\"\npartitions = 2\n",
        variable("POSTROOM_TEST_KAFKA_URL"),
        uuid::Uuid::now_v7()
    ));
    let applied = place.ok(&["topics", "apply"]).await;
    assert_eq!(
        applied.matches("with 2 partitions, kept by 1 broker").count(),
        4,
        "{applied}"
    );
    works(&place).await;
}

#[tokio::test]
async fn a_broker_without_an_address_is_a_mistake_in_the_configuration() {
    let place = Place::new();
    place.configure("[modules.hello]\nbroker = \"kafka\"\n[[routes]]\nname = \"a\"\nto = \"redis\"\n");
    let said = place.run(&["config", "check"]).await;
    assert_ne!(said.code, Some(0));
    assert!(
        said.err
            .contains("modules.hello.broker: kafka has no address; add [brokers.kafka]"),
        "{}",
        said.err
    );
    assert!(said.err.contains("routes[0].to: redis has no address"), "{}", said.err);
}
