//! The operator's commands for dead letters.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use serde_json::Value;

use crate::harness::{Daemon, Place};

/// A store with a relay, and one event that no subscriber of the example can read: two dead letters.
async fn two_dead_letters() -> (Place, Daemon) {
    let place = Place::migrated().await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place.emit("1", r#"{"no":"order"}"#).await;
    for route in ["hello-receipts", "hello-flaky"] {
        place.wait_for_route(route, |route| route["dead"] == 1).await;
    }
    (place, relay)
}

fn states(letters: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut states: Vec<_> = letters
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| (text(&letter["route"]), text(&letter["state"])))
        .collect();
    states.sort();
    states
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(route, state)| ((*route).to_owned(), (*state).to_owned()))
        .collect()
}

#[tokio::test]
async fn dead_letters_are_listed_and_shown() {
    let (place, relay) = two_dead_letters().await;
    let letters = place.json(&["dead", "list"]).await;
    assert_eq!(
        states(&letters),
        pairs(&[("hello-flaky", "dead"), ("hello-receipts", "dead")])
    );
    let only = place.json(&["dead", "list", "--route", "hello-flaky"]).await;
    assert_eq!(states(&only), pairs(&[("hello-flaky", "dead")]));
    for (filter, text, count) in [
        ("--type", "hello.order.placed.v1", 2),
        ("--type", "other", 0),
        ("--aggregate-id", "1", 2),
        ("--aggregate-id", "2", 0),
        ("--error-contains", "missing field", 2),
        ("--error-contains", "timeout", 0),
    ] {
        let found = place.json(&["dead", "list", filter, text]).await;
        assert_eq!(found.as_array().unwrap().len(), count, "{filter} {text}");
    }
    let number = letters[0]["dead_id"].to_string();
    let shown = place.ok(&["dead", "show", &number]).await;
    for part in [
        "hello.order.placed.v1",
        "order/1",
        "missing field",
        r#"{"no":"order"}"#,
        "postroom dead retry",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(
        place
            .ok(&["why"])
            .await
            .contains(&format!("postroom dead show {number}"))
    );
    relay.stop().await;
}

#[tokio::test]
async fn dead_letters_are_retried_and_discarded() {
    let (place, relay) = two_dead_letters().await;
    assert_eq!(
        place
            .json(&["dead", "discard", "--route", "hello-flaky", "--reason", "a test"])
            .await["discarded"],
        1
    );
    let all = place.json(&["dead", "list", "--all"]).await;
    assert_eq!(
        states(&all),
        pairs(&[("hello-flaky", "discarded"), ("hello-receipts", "dead")])
    );
    let discarded = all
        .as_array()
        .unwrap()
        .iter()
        .find(|letter| letter["state"] == "discarded")
        .unwrap();
    assert_eq!(
        (&discarded["reason"], &discarded["decided_by"]),
        (&Value::from("a test"), &Value::from("cli:ada"))
    );

    // The same event fails again, so a retry is seen by its letter dying once more.
    let letter = &place.json(&["dead", "list"]).await[0];
    let number = letter["dead_id"].to_string();
    assert_eq!(place.ok(&["dead", "retry", &number]).await, "1 dead letter retried\n");
    place.wait_for_route("hello-receipts", |route| route["dead"] == 1).await;
    let again = &place.json(&["dead", "list"]).await[0];
    assert_ne!(again["dead_at"], letter["dead_at"], "it was tried again");
    assert_eq!(
        place.json(&["dead", "discard", "--all", "--reason", "enough"]).await["discarded"],
        1
    );
    assert_eq!(place.ok(&["dead", "list"]).await, "no dead letters\n");
    assert_eq!(place.ok(&["dead", "retry", "--all"]).await, "no dead letter matches\n");
    relay.stop().await;
}

#[tokio::test]
async fn a_letter_that_cannot_be_decided_on_says_why() {
    let (place, relay) = two_dead_letters().await;
    let letters = place.json(&["dead", "list"]).await;
    let numbers: Vec<String> = (0..2).map(|at| letters[at]["dead_id"].to_string()).collect();
    let [first, second] = [numbers[0].as_str(), numbers[1].as_str()];
    place.ok(&["dead", "discard", first, "--reason", "a test"]).await;
    let shown = place.json(&["dead", "show", first]).await;
    let decided_at = shown["decided_at"].as_str().unwrap();
    let line = format!("decided   {}", &decided_at.replace('T', " ")[..19]);
    let page = place.ok(&["dead", "show", first]).await;
    assert!(
        page.contains(&line) && page.contains("discarded by cli:ada"),
        "{line} is not in {page}"
    );
    for (arguments, words) in [
        (
            &["dead", "retry", first][..],
            format!("dead letter {first} is discarded already, by cli:ada"),
        ),
        (&["dead", "retry", "999"], "there is no dead letter 999".to_owned()),
        (
            &["dead", "discard", second, "999", "--reason", "x"],
            "there is no dead letter 999".to_owned(),
        ),
        (
            &["dead", "discard", "--route", "nope", "--reason", "x"],
            "there is no route \"nope\"".to_owned(),
        ),
        (
            &["dead", "list", "--route", "nope"],
            "there is no route \"nope\"".to_owned(),
        ),
    ] {
        let refused = place.fails(arguments).await;
        assert!(refused.contains(&words), "{arguments:?}: {refused}");
    }
    assert_eq!(
        place.json(&["dead", "show", second]).await["state"],
        "dead",
        "one that is wrong decides none"
    );
    relay.stop().await;
}
