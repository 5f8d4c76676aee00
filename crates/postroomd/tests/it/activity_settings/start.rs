//! Where collection, and PostHog, begin when they are switched on.

use super::{BOTH, By, FakePosthog, Place, Setting, Site, base, put, set, setting, until};

const REVIEW: &str = r#"{"memberId":42,"restaurantId":1,"content":"맛있어요","hasImage":false}"#;

/// A site whose store holds an event of this type from before its first start.
async fn with_event(event: [&str; 3], by: By, setting: Setting) -> Site {
    let [event_type, aggregate_type, payload] = event;
    let posthog = FakePosthog::open().await;
    let (mut place, mut toml) = (Place::new(), base(&posthog));
    match by {
        By::Nobody => {}
        By::File => set(&mut toml, setting.key, setting.value),
        By::Variable => {
            // The base has a value for some keys; a variable goes before it.
            place.set(setting.variable, setting.value);
        }
    }
    put(&mut toml, &["relay", "lease"], "\"1s\"");
    put(&mut toml, &["modules", "hello", "enabled"], "false"); // its orders would be a backlog at every look
    place.configure(&toml.to_string());
    place.ok(&["migrate"]).await;
    let kind = ["emit", "--type", event_type, "--aggregate-type", aggregate_type];
    place
        .ok(&[&kind[..], &["--aggregate-id", "1", "--payload", payload]].concat())
        .await;
    let daemon = place.start(&["up"]).await;
    Site { place, daemon, posthog }
}

async fn stored(site: &Site) -> usize {
    let listed = site.place.json(&["activity", "list"]).await;
    listed.as_array().unwrap().len()
}

#[tokio::test]
async fn start() {
    let head = setting("start", "POSTROOM__MODULES__ACTIVITY__START", "head");
    let before = r#"{"reviewId":7,"restaurantId":1,"memberId":42,"hasImage":false}"#;
    let collected = async |by: By| {
        let site = with_event(["tasteam.review.created.v1", "review", before], by, head).await;
        let (code, made) = site
            .daemon
            .request("POST", "/tasteam/restaurants", r#"{"name":"국밥집"}"#)
            .await;
        assert_eq!(code, 201, "{made}");
        site.place
            .wait_for_route("activity-map", |route| route["is_leased"] == true)
            .await;
        site.daemon.request("POST", "/tasteam/reviews", REVIEW).await;
        let is_passed = |route: &serde_json::Value| route["backlog"] == 0 && route["delivered"] != 0;
        site.place.wait_for_route("activity-map", is_passed).await;
        site.place.wait_for_route("activity-store", is_passed).await;
        stored(&site).await
    };
    for by in BOTH {
        assert_eq!(collected(by).await, 1, "{by:?}");
    }
    assert_eq!(collected(By::Nobody).await, 2, "what came before the first start, too");
}

#[tokio::test]
async fn posthog_start() {
    let head = setting("posthog.start", "POSTROOM__MODULES__ACTIVITY__POSTHOG__START", "head");
    let before =
        r#"{"eventId":"e-1","eventName":"review.created","eventVersion":"v1","occurredAt":"2026-02-18T10:00:00Z"}"#;
    let sent = async |by: By| {
        let site = with_event(["activity.event.stored.v1", "activity", before], by, head).await;
        site.place
            .wait_for_route("activity-posthog", |route| route["is_leased"] == true)
            .await;
        assert_eq!(site.send(1).await.0, 200);
        let is_passed = |route: &serde_json::Value| route["backlog"] == 0 && route["delivered"] != 0;
        site.place.wait_for_route("activity-posthog", is_passed).await;
        until("PostHog has what was sent", async || !site.posthog.uuids().is_empty()).await;
        site.posthog.uuids().len()
    };
    for by in BOTH {
        assert_eq!(sent(by).await, 1, "{by:?}");
    }
    assert_eq!(sent(By::Nobody).await, 2, "the base begins at the beginning");
}
