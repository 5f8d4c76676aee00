//! The profiles in `deploy/profiles`, as a user takes them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::path::{Path, PathBuf};

use postroom_testkit::foreign::redis_cli;
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use toml::Table;

use crate::broker::variable;
use crate::harness::Place;

fn profiles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/profiles")
}

/// The profile as it stands, but for its addresses.
fn commerce_on(store: &str, kafka: &str) -> String {
    let profile = std::fs::read_to_string(profiles().join("commerce.toml")).unwrap();
    let mut profile: Table = profile.parse().unwrap();
    profile["store"]["url"] = store.into();
    let broker = profile["brokers"]["kafka"].as_table_mut().unwrap();
    broker.insert("url".to_owned(), kafka.into());
    broker.insert("prefix".to_owned(), format!("test-{}-", uuid::Uuid::now_v7()).into());
    profile.to_string()
}

#[tokio::test]
async fn the_shop_works_with_its_profile_and_publishes_each_event_once() {
    let (fresh, place) = (fresh::postgres().await, Place::new());
    place.configure(&commerce_on(&fresh.url(), &variable("POSTROOM_TEST_KAFKA_URL")));
    let made = place.ok(&["topics", "apply"]).await;
    assert_eq!(made.lines().count(), 8, "four topics and their dead letters: {made}");
    place.ok(&["migrate"]).await;
    let mut serve = place.start(&["serve", "--roles", "relay"]).await;
    let post = async |path: &str, body: &str| {
        let (code, answer) = serve.request("POST", path, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
    };
    post("/commerce/products", r#"{"name":"lamp","price":100,"stock":2}"#).await;
    post(
        "/commerce/orders",
        r#"{"userId":7,"lines":[{"productId":1,"quantity":2}]}"#,
    )
    .await;
    post("/commerce/orders/1/payment", r#"{"amount":200}"#).await;
    serve
        .wait_for("/commerce/products/1/metrics", |_, body| body.contains(r#""sales":2"#))
        .await;
    let route = place.wait_for_route("commerce", |route| route["delivered"] == 2).await;
    assert_eq!(route["backlog"], 0, "{route}");
    let progress = serve.read_until("progress route=\"commerce\" ").await;
    assert!(
        progress.contains("INFO") && progress.contains("delivered=2"),
        "{progress}"
    );
    serve.stop().await;
    let status = place.json(&["status"]).await;
    let routes = status["routes"].as_array().unwrap();
    let names: Vec<&str> = routes.iter().filter_map(|route| route["route"].as_str()).collect();
    assert_eq!(
        names,
        [
            "commerce",
            "commerce-likes",
            "commerce-sales",
            "commerce-stock",
            "commerce-views"
        ]
    );
}

/// The profile as it stands, but for its addresses and the prefix of its stream.
fn tasteam_on(store: &str, redis: &str, prefix: &str) -> String {
    let profile = std::fs::read_to_string(profiles().join("tasteam.toml")).unwrap();
    let mut profile: Table = profile.parse().unwrap();
    profile["store"]["url"] = store.into();
    profile["brokers"]["redis"]["url"] = redis.into();
    profile["modules"]["activity"]["message_queue"]["topic_prefix"] = prefix.into();
    profile.to_string()
}

#[tokio::test]
async fn tasteam_is_collected_with_its_profile_through_one_stream() {
    let (fresh, place) = (fresh::postgres().await, Place::new());
    let (redis, prefix) = (
        variable("POSTROOM_TEST_REDIS_URL"),
        format!("test-{}:", uuid::Uuid::now_v7().simple()),
    );
    place.configure(&tasteam_on(&fresh.url(), &redis, &prefix));
    place.ok(&["migrate"]).await;
    let serve = place.start(&["serve", "--roles", "relay"]).await;
    let post = async |path: &str, body: &str| {
        let (code, answer) = serve.request("POST", path, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
    };
    post("/tasteam/restaurants", r#"{"name":"noodles"}"#).await;
    let review = r#"{"memberId":42,"restaurantId":1,"content":"good","hasImage":true}"#;
    post("/tasteam/reviews", review).await;
    until("the review is stored", async || {
        let stored = place.json(&["activity", "list"]).await;
        stored.as_array().unwrap().len() == 1
    })
    .await;
    let stream = format!("{prefix}domain.user.activity");
    assert_eq!(redis_cli(&redis, &["XLEN", &stream]).trim(), "1");
    let groups = redis_cli(&redis, &["XINFO", "GROUPS", &stream]);
    assert!(groups.contains("activity-store"), "{groups}");
    let (code, _) = serve.request("POST", "/api/v1/activity/events", "{}").await;
    assert_eq!(code, 404, "client ingest is off");
    serve.stop().await;
    for key in redis_cli(&redis, &["--scan", "--pattern", &format!("*{prefix}*")]).lines() {
        redis_cli(&redis, &["DEL", key]);
    }
}
