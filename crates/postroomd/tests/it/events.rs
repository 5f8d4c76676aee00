//! CloudEvents over HTTP, from a producer that has no database of ours.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use cloudevents::{EventBuilder as _, EventBuilderV10};
use serde_json::{Value, json};

use crate::harness::Place;

const STRUCTURED: &str = "content-type: application/cloudevents+json\r\n";

/// As the CloudEvents SDK writes it.
fn event(id: &str) -> String {
    let event = EventBuilderV10::new()
        .id(id)
        .source("https://shop.example/till")
        .ty("shop.order.paid.v1")
        .subject("order-7")
        .data("application/json", json!({ "amount": 12 }))
        .build()
        .unwrap();
    serde_json::to_string(&event).unwrap()
}

#[tokio::test]
async fn an_event_is_accepted_once_in_every_mode() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    let post = async |headers: &str, body: &str| {
        let (code, answer) = up.request_with("POST", "/api/v1/events", headers, body).await;
        (code, serde_json::from_str::<Value>(&answer).unwrap())
    };
    assert_eq!(
        post(STRUCTURED, &event("A-1")).await,
        (202, json!({ "accepted": 1, "repeated": 0 }))
    );
    assert_eq!(
        post(STRUCTURED, &event("A-1")).await,
        (202, json!({ "accepted": 0, "repeated": 1 }))
    );
    let batch = format!("[{},{},{}]", event("A-1"), event("A-2"), event("A-3"));
    let headers = "content-type: application/cloudevents-batch+json\r\n";
    assert_eq!(
        post(headers, &batch).await,
        (202, json!({ "accepted": 2, "repeated": 1 }))
    );
    let binary = "content-type: application/json\r\nce-specversion: 1.0\r\nce-id: A-3\r\n\
        ce-source: https://shop.example/till\r\nce-type: shop.order.paid.v1\r\n";
    assert_eq!(
        post(binary, r#"{"amount":12}"#).await,
        (202, json!({ "accepted": 0, "repeated": 1 }))
    );
    up.stop().await;
    let events = place.ok(&["tail", "--json"]).await;
    let ours: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["type"] == "shop.order.paid.v1")
        .collect();
    assert_eq!(ours.len(), 3, "{events}");
    assert_eq!(ours[0]["aggregate_id"], "order-7");
}

#[tokio::test]
async fn a_broken_event_is_refused_with_the_reason_and_nothing_is_kept() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    let refused = async |headers: &str, body: &str, words: &str| {
        let (code, answer) = up.request_with("POST", "/api/v1/events", headers, body).await;
        assert_eq!(code, 422, "{answer}");
        assert!(answer.contains(words), "{answer}");
    };
    refused("", "{}", "ce-specversion").await;
    refused(STRUCTURED, "{", "a JSON object is expected").await;
    refused(
        STRUCTURED,
        r#"{"specversion":"1.0","id":"1","source":"s"}"#,
        "type is missing",
    )
    .await;
    let half = format!("[{},{{}}]", event("B-1"));
    let batch = "content-type: application/cloudevents-batch+json\r\n";
    refused(batch, &half, "event 1 of the batch").await;
    up.stop().await;
    let events = place.ok(&["tail", "--json"]).await;
    assert!(!events.contains("shop.order.paid.v1"), "{events}");
}
