//! CloudEvents over HTTP, from a producer that has no database of ours.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use cloudevents::{EventBuilder as _, EventBuilderV10};
use serde_json::{Value, json};

use crate::harness::Place;

const BATCH: &str = "content-type: application/cloudevents-batch+json\r\n";
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
    let counts = |answer: &Value| {
        (
            answer["accepted"].as_u64().unwrap(),
            answer["repeated"].as_u64().unwrap(),
        )
    };
    let (code, first) = post(STRUCTURED, &event("A-1")).await;
    assert_eq!((code, counts(&first)), (202, (1, 0)));
    let (code, again) = post(STRUCTURED, &event("A-1")).await;
    assert_eq!((code, counts(&again)), (202, (0, 1)));
    assert_eq!(again["event_ids"], first["event_ids"]);
    let batch = format!("[{},{},{}]", event("A-1"), event("A-2"), event("A-3"));
    let (code, three) = post(BATCH, &batch).await;
    assert_eq!((code, counts(&three)), (202, (2, 1)));
    assert_eq!(three["event_ids"][0], first["event_ids"][0]);
    let binary = "content-type: application/json\r\nce-specversion: 1.0\r\nce-id: A-3\r\nce-subject: order-7\r\n\
        ce-source: https://shop.example/till\r\nce-type: shop.order.paid.v1\r\n";
    let (code, binary) = post(binary, r#"{ "amount": 12 }"#).await;
    assert_eq!((code, counts(&binary)), (202, (0, 1)));
    let id = three["event_ids"][2].as_str().unwrap();
    assert_eq!(binary["event_ids"][0], id);
    assert_eq!(place.json(&["why", id]).await["entry"]["id"], id);
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

/// Without this conflict, a client that gives two events one id would lose the second silently.
#[tokio::test]
async fn an_id_that_comes_again_with_other_content_is_a_conflict() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    let post = async |headers: &str, body: &str| up.request_with("POST", "/api/v1/events", headers, body).await;
    assert_eq!(post(STRUCTURED, &event("C-1")).await.0, 202);
    let other_data = event("C-1").replace("12", "13");
    let other_type = event("C-1").replace("paid", "lost");
    let other_key = event("C-1").replace("order-7", "order-8");
    let with_new = format!("[{},{other_data}]", event("C-2"));
    let within = format!("[{},{}]", event("C-3"), event("C-3").replace("12", "13"));
    for (headers, body) in [
        (STRUCTURED, &other_data),
        (STRUCTURED, &other_type),
        (STRUCTURED, &other_key),
        (BATCH, &with_new),
        (BATCH, &within),
    ] {
        let (code, answer) = post(headers, body).await;
        assert_eq!(code, 409, "{body}: {answer}");
        let problem: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(problem["code"], "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("\"C-"), "{answer}");
    }
    up.stop().await;
    let events = place.ok(&["tail", "--type", "shop.**"]).await;
    assert_eq!(events.lines().count(), 1, "{events}");
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
    refused(BATCH, &half, "event 1 of the batch").await;
    up.stop().await;
    let events = place.ok(&["tail", "--json"]).await;
    assert!(!events.contains("shop.order.paid.v1"), "{events}");
}

/// Otherwise a client that may post could forge a module's events, for example an order that was never placed.
#[tokio::test]
async fn an_event_type_that_a_module_declares_is_refused_in_every_mode() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    let forged = |id: &str, kind: &str| event(id).replace("shop.order.paid.v1", kind);
    let refused = async |headers: &str, body: &str, words: [&str; 3]| {
        let (code, answer) = up.request_with("POST", "/api/v1/events", headers, body).await;
        assert_eq!(code, 422, "{body}: {answer}");
        let problem: Value = serde_json::from_str(&answer).unwrap();
        let detail = problem["detail"].as_str().unwrap();
        assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
    };
    let declared = "hello.receipt.written.v1";
    let names = ["event 0", declared, "module hello"];
    refused(STRUCTURED, &forged("F-1", declared), names).await;
    let binary = "content-type: application/json\r\nce-specversion: 1.0\r\nce-id: F-2\r\nce-subject: order-7\r\n\
        ce-source: https://shop.example/till\r\nce-type: hello.receipt.written.v1\r\n";
    refused(binary, r#"{ "amount": 12 }"#, names).await;
    let batch = format!("[{},{}]", event("F-3"), forged("F-4", declared));
    refused(BATCH, &batch, ["event 1", declared, "module hello"]).await;
    for disguise in [
        "hello.receipt.written.v0",
        "Hello.Receipt.Written.v1",
        "hello.receipt.written",
    ] {
        refused(STRUCTURED, &forged("F-5", disguise), ["event 0", disguise, declared]).await;
    }
    up.stop().await;
    let events = place.ok(&["tail", "--json"]).await;
    assert!(!events.contains("https://shop.example/till"), "{events}");
}
