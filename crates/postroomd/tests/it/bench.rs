//! `postroom bench`: each one runs to its end and says what it was asked for. How fast is nobody's business here.

use serde_json::Value;

use crate::harness::Place;

/// Every one of these is a number above zero.
pub(crate) fn are_positive(document: &Value, keys: &[&str]) {
    for key in keys {
        let value = document[key].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{key} in {document}");
    }
}

pub(crate) fn are_numbers(document: &Value, keys: &[&str]) {
    for key in keys {
        assert!(document[key].is_number(), "{key} in {document}");
    }
}

#[tokio::test]
async fn bench_relay_says_how_fast_and_how_soon() {
    for to in ["subscriber", "null"] {
        let place = Place::new();
        let flags = [
            "bench",
            "relay",
            "--to",
            to,
            "--events",
            "1500",
            "--rate",
            "50",
            "--seconds",
            "1",
        ];
        let document = place.json(&flags).await;
        are_positive(
            &document,
            &["events_per_s", "limit_events_per_s", "ratio_to_limit", "achieved_per_s"],
        );
        are_numbers(&document, &["p50_ms", "p99_ms"]);
        assert!(document["p50_ms"].as_f64() <= document["p99_ms"].as_f64(), "{document}");
        assert!(
            document["on"]["version"].as_str().unwrap().starts_with("SQLite 3"),
            "{document}"
        );
        assert_eq!(
            std::fs::read_dir(place.path()).unwrap().count(),
            0,
            "nothing is left where it was called"
        );
    }
}

#[tokio::test]
async fn bench_emit_says_what_an_emit_costs() {
    let document = Place::new()
        .json(&["bench", "emit", "--seconds", "1", "--connections", "2"])
        .await;
    are_positive(&document, &["plain_tx_per_s", "emit_tx_per_s"]);
    are_numbers(&document, &["cost"]);
}

#[tokio::test]
async fn bench_backlog_says_what_a_page_costs() {
    let document = Place::new()
        .json(&["bench", "backlog", "--small", "100", "--large", "120000"])
        .await;
    are_positive(&document, &["small_ms", "large_ms", "ratio"]);
}

#[tokio::test]
async fn bench_idle_says_what_doing_nothing_costs() {
    let document = Place::new()
        .json(&["bench", "idle", "--subscribers", "2", "--seconds", "2"])
        .await;
    are_positive(&document, &["queries_per_s"]);
    are_numbers(&document, &["cpu_percent"]);
    assert!(document["server_cpu_percent"].is_null(), "SQLite has no server");
}

#[tokio::test]
async fn a_bench_leaves_a_store_as_it_was() {
    let place = Place::migrated().await;
    let store = format!("sqlite://{}", place.path().join("postroom-data/postroom.db").display());
    let flags = [
        "bench",
        "relay",
        "--events",
        "100",
        "--rate",
        "50",
        "--seconds",
        "1",
        "--store",
        &store,
    ];
    let said = place.ok(&flags).await;
    assert!(
        said.contains("events/s") && said.contains("again: postroom bench relay"),
        "{said}"
    );
    assert_eq!(place.ok(&["tail"]).await, "", "no event is left");
    assert_eq!(
        place.json(&["status"]).await["routes"],
        Value::Array(Vec::new()),
        "no route is left"
    );

    place
        .emit("1", r#"{"order_id":"1","customer":"ada","item":"lamp","quantity":1}"#)
        .await;
    let refused = place.fails(&flags).await;
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(place.ok(&["tail"]).await.lines().count(), 1);
    place.ok(&[&flags[..], &["--force"]].concat()).await;
    assert_eq!(
        place.ok(&["tail"]).await.lines().count(),
        1,
        "what was there is still there"
    );
}
