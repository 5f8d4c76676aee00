//! A module that is switched off by its setting, and on again.

use postroom_testkit::wait::until;

use crate::harness::{Daemon, Place};

async fn serve(place: &Place, is_enabled: bool) -> Daemon {
    place.configure(&format!(
        "[relay]\nlease = \"1s\"\n[modules.activity]\nenabled = {is_enabled}\n"
    ));
    place.ok(&["migrate"]).await;
    place.start(&["serve", "--roles", "relay"]).await
}

/// Its routes are forgotten, so that retention passes what they have not read, and the log says what that was. On again, it begins
/// with what the outbox still holds; the same range can be mapped again.
#[tokio::test]
async fn a_module_that_is_switched_off_holds_no_event() {
    let place = Place::new();
    let on = serve(&place, true).await;
    place
        .wait_for_route("activity-map", |route| route["is_leased"] == true)
        .await;
    on.stop().await;
    let review = r#"{"reviewId":1,"restaurantId":2,"memberId":42,"hasImage":true}"#;
    let kind = [
        "emit",
        "--type",
        "tasteam.review.created.v1",
        "--aggregate-type",
        "review",
    ];
    place
        .ok(&[&kind[..], &["--aggregate-id", "1", "--payload", review]].concat())
        .await;
    let mut off = serve(&place, false).await;
    let said = off
        .read_until("is switched off and was forgotten. It had not delivered 1 event,")
        .await;
    assert!(
        said.contains("activity-map") && said.contains("`postroom activity reprocess`"),
        "{said}"
    );
    place.wait_for_route("activity-store", serde_json::Value::is_null).await;
    place
        .wait_for_route("activity-off", |route| route["backlog"] == 0)
        .await;
    off.stop().await;
    let on = serve(&place, true).await;
    place
        .wait_for_route("activity-map", |route| route["delivered"] == 1)
        .await;
    place.wait_for_route("activity-off", serde_json::Value::is_null).await;
    let range = ["--from", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z"];
    place.ok(&[&["activity", "reprocess"][..], &range].concat()).await;
    until("the range is mapped again", || async {
        let all = place.json(&["activity", "reprocesses"]).await;
        all[0]["state"] == "done" && all[0]["unchanged"] == 1
    })
    .await;
    on.stop().await;
}
