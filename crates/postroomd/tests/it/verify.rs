//! `postroom verify` as people call it. That it finds what it looks for is shown by the twins of the testkit.

use crate::harness::Place;

const BRIEF: [&str; 5] = ["verify", "--seconds", "1", "--writers", "2"];

#[tokio::test]
async fn verify_without_a_store_runs_in_one_of_its_own() {
    let place = Place::new();
    let report = place.json(&BRIEF).await;
    assert!(report["events"].as_u64() > Some(0), "{report}");
    assert_eq!(report["lost"], 0, "{report}");
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left where it was called");
}

#[tokio::test]
async fn verify_refuses_a_store_where_others_are_at_work() {
    let place = Place::migrated().await;
    let order = r#"{"order_id":"1","customer":"ada","item":"lamp","quantity":1}"#;
    place.emit("1", order).await;
    let on = [&BRIEF[..], &["--store", "sqlite://postroom-data/postroom.db"]].concat();
    let refused = place.fails(&on).await;
    assert!(
        refused.contains("events wait that no route has read") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(place.ok(&["tail"]).await.lines().count(), 1, "it wrote nothing");
    let forced = place.ok(&[&on[..], &["--force"]].concat()).await;
    assert!(forced.starts_with("exact: own on sqlite://postroom-data"), "{forced}");
}

/// Routes of others would get every event of the trial, also when nothing waits for them now.
#[tokio::test]
async fn verify_refuses_a_store_where_routes_of_others_are_registered() {
    let place = Place::migrated().await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place
        .wait_for_route("hello-receipts", |route| route["is_leased"] == true)
        .await;
    relay.stop().await;
    let on = [
        "verify",
        "--seconds",
        "1",
        "--store",
        "sqlite://postroom-data/postroom.db",
    ];
    let refused = place.fails(&on).await;
    assert!(
        refused.contains("is registered") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(place.ok(&["tail"]).await, "", "nothing was written");
}

#[tokio::test]
async fn verify_knows_which_readers_are_right_where() {
    let place = Place::new();
    let refused = place.fails(&["verify", "--reader", "xmin"]).await;
    assert!(
        refused.contains("pg_snapshot_xmin, which SQLite does not have"),
        "{refused}"
    );
    let right = place.ok(&[&BRIEF[..], &["--reader", "naive-id"]].concat()).await;
    assert!(right.starts_with("exact: naive-id on sqlite://"), "{right}");
}
