//! `postroom retry`: an operator tries a parked event now.

use crate::harness::Place;

#[tokio::test]
async fn a_parked_event_is_tried_now_or_the_way_out_is_named() {
    let place = Place::new();
    place.configure(
        "[modules.hello]\nenabled = true\n[[routes]]\nname = \"hook\"\nto = \"http\"\nurl = \"http://127.0.0.1:9/\"\n",
    );
    place.ok(&["migrate"]).await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    let order = r#"{"order_id":"1","customer":"nobody","item":"lamp","quantity":2}"#;
    let event = place.emit("1", order).await;
    place
        .wait_for_route("hello-flaky", |route| route["retrying"] == 1)
        .await;
    let route = place.route("hello-flaky").await;
    assert_eq!(route["retry_event"], event.as_str(), "{route}");
    let retried = place.json(&["retry", &event, "--route", "hello-flaky"]).await;
    assert_eq!(retried[0]["route"], "hello-flaky", "{retried}");
    assert!(retried[0]["attempts"].as_u64() >= Some(1), "{retried}");
    assert_eq!(retried[0]["is_paused"], false, "{retried}");

    place.wait_for_route("hello-flaky", |route| route["dead"] == 1).await;
    let dead = place.fails(&["retry", &event, "--route", "hello-flaky"]).await;
    assert!(
        dead.contains("dead letter 1") && dead.contains("postroom dead retry 1"),
        "{dead}"
    );
    let unknown = "01990000-0000-7000-8000-000000000000";
    let nowhere = place.fails(&["retry", unknown]).await;
    assert!(nowhere.contains("no event"), "{nowhere}");
    let odd = place.run(&["retry", "7"]).await;
    assert!(odd.code != Some(0) && odd.err.contains("no event id"), "{}", odd.err);
    relay.stop().await;
}
