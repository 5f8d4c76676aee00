//! The configuration as people meet it.

use serde_json::{Value, json};

use crate::harness::Place;

#[tokio::test]
async fn every_key_is_documented() {
    let place = Place::new();
    insta::assert_snapshot!(place.ok(&["config", "print"]).await);
}

#[tokio::test]
async fn a_file_is_checked() {
    let place = Place::new();
    assert_eq!(
        place.ok(&["config", "check"]).await,
        "no mistakes; store sqlite://postroom-data/postroom.db, 0 configured routes\n"
    );
    let reference = place.ok(&["config", "print"]).await;
    place.configure(&reference);
    place.ok(&["config", "check"]).await;
    place.configure("[store]\nurl = \"redis://x\"\n[[routes]]\nname = \"a\"\nto = \"kafka\"\n");
    insta::assert_snapshot!(place.fails(&["config", "check"]).await);
    assert!(
        place.fails(&["status"]).await.contains("redis://"),
        "every command checks it"
    );
}

#[tokio::test]
async fn programs_can_check_and_read_it() {
    let place = Place::new();
    let defaults = place.json(&["config", "print"]).await;
    assert_eq!(defaults["retention"]["outbox"], "7d");
    let fine = place.json(&["config", "check"]).await;
    assert_eq!((&fine["mistakes"], &fine["routes"]), (&json!([]), &json!(0)));
    place.configure("[relay]\nlease = \"soon\"\n[server]\nport = 1\n");
    let said = place.run(&["config", "check", "--json"]).await;
    assert_eq!(said.code, Some(1), "{}", said.out);
    let wrong: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(wrong["mistakes"].as_array().unwrap().len(), 2, "{wrong}");
}

#[tokio::test]
async fn a_route_is_not_named_like_a_subscriber() {
    let place = Place::new();
    place.configure("[[routes]]\nname = \"hello-receipts\"\nto = \"log\"\n");
    let refused = place.fails(&["config", "check"]).await;
    let words = "routes[0].name: \"hello-receipts\" is the name of a subscriber of the module hello";
    assert!(refused.contains(words), "{refused}");
    place.configure("[modules.hello]\nenabled = false\n[[routes]]\nname = \"hello-receipts\"\nto = \"log\"\n");
    let said = place.ok(&["config", "check"]).await;
    assert!(said.ends_with("1 configured route\n"), "{said}");
}

#[tokio::test]
async fn a_level_that_does_not_exist_is_a_mistake() {
    let place = Place::new();
    let mut check = place.command(&["config", "check"]);
    let said = check.env("POSTROOM__LOG__LEVEL", "bogus").output().await.unwrap();
    let err = String::from_utf8(said.stderr).unwrap();
    assert!(
        err.contains("POSTROOM__LOG__LEVEL") && err.contains("must be error, warn"),
        "{err}"
    );
    assert_eq!(said.status.code(), Some(1));
}

#[tokio::test]
async fn every_profile_is_accepted() {
    let place = Place::new();
    let profiles = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/profiles");
    let mut checked = 0;
    for profile in std::fs::read_dir(profiles).unwrap() {
        let path = profile.unwrap().path().display().to_string();
        let said = place.ok(&["config", "check", "--config", &path]).await;
        assert!(said.starts_with("no mistakes"), "{path}: {said}");
        checked += 1;
    }
    assert!(checked > 0, "there are no profiles");
}
