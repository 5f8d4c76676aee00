//! The catalogue as people and their tools meet it.

use std::path::Path;

use serde_json::Value;

use crate::harness::Place;

/// The lock file of this repository.
fn committed() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("catalog.lock.json").to_string_lossy().into_owned()
}

/// Fails when a change to an event breaks a consumer, or when the lock file was not committed.
#[tokio::test]
async fn the_committed_lock_is_kept() {
    let place = Place::new();
    place.ok(&["catalog", "check", "--lock", &committed()]).await;
}

#[tokio::test]
async fn a_broken_promise_is_named_with_the_way_out() {
    let place = Place::new();
    place.ok(&["catalog", "check", "--write"]).await;
    let file = place.path().join("catalog.lock.json");
    let mut lock: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let order = &mut lock["hello.order.placed.v1"]["schema"];
    order["properties"]["quantity"]["type"] = "string".into();
    order["properties"]["colour"] = serde_json::json!({ "type": "string" });
    lock["hello.parcel.lost.v1"] = lock["hello.receipt.written.v1"].clone();
    lock.as_object_mut().unwrap().remove("hello.receipt.written.v1");
    std::fs::write(&file, lock.to_string()).unwrap();
    let said = place.run(&["catalog", "check", "--write"]).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    let says = said.out;
    for expected in [
        "hello.order.placed.v1: colour was removed. Undo it, or make a new version beside it, with an upcaster",
        "hello.order.placed.v1: quantity was string (uint32) and is integer (uint32)",
        "hello.parcel.lost.v1 is gone",
        "hello.receipt.written.v1 is new",
    ] {
        assert!(says.contains(expected), "{expected:?} is not in {says}");
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(kept, lock, "nothing is written over a broken promise");
}

#[tokio::test]
async fn a_lock_that_is_missing_or_behind_is_named() {
    let place = Place::new();
    let missing = place.run(&["catalog", "check"]).await;
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), ""));
    let words = "there is no catalog.lock.json to check against: `postroom catalog check --write` makes it";
    assert!(missing.err.contains(words), "{}", missing.err);
    place.ok(&["catalog", "check", "--write"]).await;
    let file = place.path().join("catalog.lock.json");
    let mut lock: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    lock.as_object_mut().unwrap().remove("hello.receipt.written.v1");
    std::fs::write(&file, lock.to_string()).unwrap();
    let behind = place.run(&["catalog", "check"]).await;
    assert_eq!(behind.out, "hello.receipt.written.v1 is new\n");
    let words = "catalog.lock.json is behind: run `postroom catalog check --write` and commit it";
    assert!(behind.err.contains(words), "{}", behind.err);
}

#[tokio::test]
async fn events_are_listed_with_schema_publisher_and_subscribers() {
    let place = Place::new();
    let list = place.json(&["catalog", "list"]).await;
    let events = list["events"].as_array().unwrap();
    let placed = events
        .iter()
        .find(|event| event["name"] == "hello.order.placed.v1")
        .unwrap();
    assert_eq!(placed["publisher"], "hello");
    assert_eq!(
        placed["subscribers"],
        serde_json::json!(["hello-receipts", "hello-flaky"])
    );
    assert_eq!(placed["schema"]["properties"]["quantity"]["type"], "integer");
    for event in events {
        assert_ne!(event["description"], "", "{} has words", event["name"]);
    }
    let people = place.ok(&["catalog", "list"]).await;
    assert!(people.contains("A customer placed an order."), "{people}");
    assert!(people.contains("to hello-receipts, hello-flaky"), "{people}");
    let widest = people.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns: {people}");
}

/// A model of the specification reads it, and whatever it refers to is there.
#[tokio::test]
async fn the_contract_is_asyncapi() {
    let place = Place::new();
    let text = place.ok(&["catalog", "asyncapi"]).await;
    serde_json::from_str::<asyncapiv3::spec::AsyncApiSpec>(&text).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 4, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            references.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|inner| collect(inner, references));
        }
        Value::Array(values) => values.iter().for_each(|inner| collect(inner, references)),
        _ => {}
    }
}

#[tokio::test]
async fn the_flow_is_a_picture() {
    let place = Place::new();
    let file = place.path().join("flow.svg");
    place.ok(&["catalog", "graph", "--output", "flow.svg"]).await;
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    for name in ["hello.order.placed.v1", "hello-receipts", "hello-flaky"] {
        assert_eq!(svg.matches(&format!(">{name}<")).count(), 1, "one box for {name}");
    }
    assert_eq!(svg.matches("<path ").count(), svg.matches("<path d=\"M").count());
}
