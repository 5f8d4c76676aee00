//! Activity collection in the daemon: the secret of its hashes, and the check of files.

use std::os::unix::fs::PermissionsExt as _;

use postroom_testkit::fresh;
use serde_json::json;

use crate::harness::Place;

const SECRET: &str = "an invented secret that only tests use";

#[tokio::test]
async fn a_09_a_store_of_ones_own_needs_a_hash_secret() {
    let (fresh, place) = (fresh::sqlite().await, Place::without_hash_secret());
    let url = fresh.url();
    place.configure(&format!("[store]\nurl = \"{url}\"\n[modules.activity]\nenabled = true"));
    place.ok(&["migrate"]).await;
    let error = place
        .fails(&["serve", "--roles", "relay", "--listen", "127.0.0.1:0"])
        .await;
    for words in [
        "activity",
        "pii.hash_secret is missing",
        "openssl rand -base64 48",
        "ANALYTICS_HASH_SECRET",
    ] {
        assert!(error.contains(words), "{error}");
    }
    place.ok(&["status"]).await;
    place.configure(&format!(
        "[store]\nurl = \"{url}\"\n[modules.activity]\nenabled = true\npii.hash_secret = \"{SECRET}\""
    ));
    let daemon = place.start(&["serve", "--roles", "relay"]).await;
    daemon.stop().await;
    let shown = place.ok(&["config", "print"]).await + &place.ok(&["config", "check", "--json"]).await;
    assert!(!shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn a_09_the_built_in_store_makes_its_hash_secret() {
    let place = Place::without_hash_secret();
    let file = place.path().join("postroom-data/activity-hash-secret");
    place.start(&["up"]).await.stop().await;
    let secret = std::fs::read_to_string(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    place.start(&["serve", "--roles", "relay"]).await.stop().await;
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        secret,
        "the same at the next start"
    );
}

#[tokio::test]
async fn pii_check_names_lines_kinds_and_fields_and_no_value() {
    let place = Place::new();
    let lines = "{\"properties\":{\"memo\":\"kim@example.com, 010-1234-5678\"}}\nnothing\ncall 010-1234-5678\n";
    std::fs::write(place.path().join("events.jsonl"), lines).unwrap();
    let shown = place.ok(&["activity", "pii-check", "events.jsonl"]).await;
    for words in [
        "properties.memo",
        "email",
        "phone",
        "3 lines: 3 values would be removed or hashed",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(!shown.contains("kim") && !shown.contains("1234"), "{shown}");
    let report = place.json(&["activity", "pii-check", "events.jsonl"]).await;
    let expected = json!([
        { "line": 1, "place": "properties.memo", "kind": "email", "count": 1 },
        { "line": 1, "place": "properties.memo", "kind": "phone", "count": 1 },
        { "line": 3, "place": "text", "kind": "phone", "count": 1 },
    ]);
    assert_eq!((&report["found"], &report["total"]), (&expected, &json!(3)));
    std::fs::write(place.path().join("words.json"), r#"{"query":"국밥"}"#).unwrap();
    let hashed = place.json(&["activity", "pii-check", "words.json"]).await;
    assert_eq!(hashed["total"], 1);
    place.configure("[modules.activity]\npii.keyword_mode = \"PLAIN\"");
    let plain = place.ok(&["activity", "pii-check", "words.json"]).await;
    assert_eq!(plain, "1 line: nothing would be removed\n");
}
