//! Activity collection through Redis, by the daemon: entries of other programs, and the rate limit over all instances.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use postroom_testkit::foreign::redis_cli;
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use serde_json::{Value, json};

use crate::broker::variable;
use crate::harness::Place;

fn redis() -> String {
    variable("POSTROOM_TEST_REDIS_URL")
}

/// A prefix of its own, as in `test-…:domain.user.activity`.
fn prefix() -> String {
    format!("test-{}", uuid::Uuid::now_v7().simple())
}

async fn stored(place: &Place) -> Vec<Value> {
    let listed = place.json(&["activity", "list"]).await;
    listed.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_plain_xadd_is_one_row_and_a_broken_one_is_one_dead_letter() {
    let (place, prefix, url) = (Place::new(), prefix(), redis());
    place.configure(&format!(
        "[brokers.redis]\nurl = \"{url}\"\n[modules.activity.message_queue]\nenabled = true\nprovider = \"redis-stream\"\n\
         topic_prefix = \"{prefix}:\"\ndefault_consumer_group = \"tasteam-api\"\n"
    ));
    let up = place.start(&["up"]).await;
    let stream = format!("{prefix}:domain.user.activity");
    let add = |id: &str, member: &str| {
        let id_and_name = ["eventId", id, "eventName", "review.created", "eventVersion", "v1"];
        let time_and_member = ["occurredAt", "2026-02-18T10:00:00Z", "memberId", member];
        let entry = ["XADD", &stream, "*"];
        redis_cli(&url, &[&entry[..], &id_and_name, &time_and_member].concat());
    };
    add("e-1", "42");
    add("e-1", "42");
    add("e-2", "nobody");
    add("e-3", "43");
    until("both events are stored", async || stored(&place).await.len() == 2).await;
    let events = stored(&place).await;
    let ids: Vec<&str> = events.iter().filter_map(|event| event["eventId"].as_str()).collect();
    assert!(ids.contains(&"e-1") && ids.contains(&"e-3"), "{events:?}");
    let letters = place.json(&["dead", "list"]).await;
    let letters = letters.as_array().unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["error"], "the field memberId must be a whole number");
    assert_eq!(letters[0]["route"], "tasteam-api");
    let groups = redis_cli(&url, &["XINFO", "GROUPS", &stream]);
    assert!(groups.contains("tasteam-api"), "{groups}");
    assert_eq!(redis_cli(&url, &["XLEN", &stream]).trim(), "4");
    up.stop().await;
    for key in redis_cli(&url, &["--scan", "--pattern", &format!("*{prefix}*")]).lines() {
        redis_cli(&url, &["DEL", key]);
    }
}

#[tokio::test]
async fn two_daemons_with_a_redis_let_120_requests_of_a_client_through() {
    let fresh = fresh::postgres().await;
    let config = format!(
        "[store]\nurl = \"{}\"\n[brokers.redis]\nurl = \"{}\"\nprefix = \"{}\"\n[modules.activity]\nenabled = true\n\
         client_ingest_enabled = true\n",
        fresh.url(),
        redis(),
        prefix(),
    );
    let places = [Place::new(), Place::new()];
    places.iter().for_each(|place| place.configure(&config));
    places[0].ok(&["migrate"]).await;
    let daemons = [
        places[0].start(&["serve", "--roles", "relay"]).await,
        places[1].start(&["serve", "--roles", "relay"]).await,
    ];
    let mut passed = 0;
    for number in 0..150 {
        let body = json!({ "events": [] }).to_string();
        let (code, answer) = daemons[number % 2]
            .request("POST", "/api/v1/activity/events", &body)
            .await;
        assert!([200, 429].contains(&code), "{code} {answer}");
        passed += usize::from(code == 200);
    }
    assert_eq!(passed, 120);
}
