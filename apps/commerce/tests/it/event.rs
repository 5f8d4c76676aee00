//! The shop's events as subscribers receive them.

use std::collections::{BTreeMap, BTreeSet};

use postroom::{Event, Mark, Position};
use postroom_host::Topics;
use postroom_testkit::fresh;
use postroom_testkit::own_topics::OwnTopics;
use serde_json::{Value, json};

use crate::shop::{Shop, TOPICS};

/// Type, aggregate and payload of an event.
fn said(event: &Event) -> (String, String, Value) {
    assert_eq!(event.source, commerce::SOURCE);
    let payload = event.decode().unwrap();
    (event.event_type.clone(), event.key().to_string(), payload)
}

on_every_way! {
    c_01_five_events_say_what_happened
}

async fn c_01_five_events_say_what_happened(shop: Shop) {
    let product = shop.product(250, 2).await;
    shop.view(product, 7).await;
    shop.like(product, 7, true).await;
    shop.like(product, 7, true).await;
    shop.like(product, 8, false).await;
    shop.like(product, 7, false).await;
    shop.like(product, 7, false).await;
    let (_, paid) = shop.buy(7, &[(product, 2)]).await;
    let (order, payment) = (&paid["orderId"], &paid["paymentId"]);
    shop.fresh.catch_up().await;
    let page = shop.fresh.read(Position::START, 100).await.unwrap();
    let events: Vec<_> = page.entries.iter().map(|entry| said(&entry.event)).collect();
    let event = |kind: &str, aggregate: String, payload: Value| (format!("loopers.{kind}.v1"), aggregate, payload);
    assert_eq!(
        events,
        [
            event(
                "product.viewed",
                format!("Product/{product}"),
                json!({ "productId": product, "userId": 7 })
            ),
            event(
                "like.created",
                format!("Like/{product}"),
                json!({ "userId": 7, "productId": product })
            ),
            event(
                "like.canceled",
                format!("Like/{product}"),
                json!({ "userId": 7, "productId": product })
            ),
            event(
                "order.paid",
                format!("Order/{order}"),
                json!({ "orderId": order, "paymentId": payment, "amount": 500 })
            ),
            event(
                "stock.depleted",
                format!("Stock/{product}"),
                json!({ "productId": product })
            ),
        ]
    );
}

/// The catalogue lists every event with its topic and a described schema.
#[test]
fn c_01_the_catalogue_knows_the_events_and_their_topics() {
    let module = commerce::module();
    let topics = Topics::of([&module]);
    let mut found = BTreeSet::new();
    for event in &module.events {
        let pattern = postroom::Filter::any_of([event.name]);
        found.extend(topics.matching(&pattern));
        let schema = serde_json::to_value(&event.schema).unwrap();
        assert!(schema["description"].is_string(), "{}: {schema}", event.name);
        for (field, shape) in schema["properties"].as_object().unwrap() {
            assert!(shape["description"].is_string(), "{} of {}", field, event.name);
        }
    }
    assert_eq!((module.events.len(), found), (5, TOPICS.map(str::to_owned).into()));
}

/// Published events are in the four topics. Each aggregate stays in one partition, and the aggregates spread over several
/// partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_01_four_topics_are_keyed_by_aggregate() {
    let topics = OwnTopics::create(&TOPICS).await;
    let shop = Shop::open(fresh::postgres().await, Some(topics.clone())).await;
    let mut products = Vec::new();
    for _ in 0..8 {
        products.push(shop.product(100, 1).await);
    }
    for product in &products {
        shop.view(*product, 7).await;
        shop.like(*product, 7, true).await;
        shop.like(*product, 7, false).await;
        assert_eq!(shop.buy(7, &[(*product, 1)]).await.0, 201);
    }
    for (topic, count) in [
        ("order-events", 8),
        ("like-events", 16),
        ("product-events", 8),
        ("stock-events", 8),
    ] {
        let mut places: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        for message in topics.read(topic, count).await {
            let Mark::Offset { partition, .. } = message.mark else {
                panic!("{message:?} has no partition");
            };
            assert_eq!(message.attributes["source"], "commerce-api");
            places
                .entry(message.attributes["aggregateid"].clone())
                .or_default()
                .insert(partition);
        }
        assert_eq!(places.len(), 8, "{topic}: {places:?}");
        assert!(
            places.values().all(|partitions| partitions.len() == 1),
            "{topic}: {places:?}"
        );
        let used: BTreeSet<i32> = places.into_values().flatten().collect();
        assert!(
            used.len() > 1 && used.iter().all(|partition| *partition < 3),
            "{topic}: {used:?}"
        );
    }
}
