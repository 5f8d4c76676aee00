//! The profiles in `deploy/profiles`, as a user takes them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use postroom_testkit::foreign::redis_cli;
use postroom_testkit::fresh;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::wait::until;
use postroom_testkit::{rabbitmq_server, redis_server};
use toml::Table;

use crate::broker::variable;
use crate::harness::Place;

fn profiles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/profiles")
}

/// A profile as it stands, but for its addresses and the prefix of its topics.
fn on_kafka(name: &str, store: &str, prefix: &str) -> String {
    let profile = std::fs::read_to_string(profiles().join(name)).unwrap();
    let mut profile: Table = profile.parse().unwrap();
    profile["store"]["url"] = store.into();
    let broker = profile["brokers"]["kafka"].as_table_mut().unwrap();
    broker.insert("url".to_owned(), variable("POSTROOM_TEST_KAFKA_URL").into());
    broker.insert("prefix".to_owned(), prefix.into());
    profile.to_string()
}

fn prefix() -> String {
    format!("test-{}-", uuid::Uuid::now_v7())
}

#[tokio::test]
async fn the_shop_works_with_its_profile_and_publishes_each_event_once() {
    let (fresh, place) = (fresh::postgres().await, Place::new());
    place.configure(&on_kafka("commerce.toml", &fresh.url(), &prefix()));
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

/// The first event of an account fails, because its topic is not there yet. Later events of the account wait until an operator has
/// retried the failed one, so the topic has them in the order of their numbers. Other accounts go on.
#[tokio::test]
async fn no_event_of_an_account_overtakes_a_failed_one_with_the_profile_of_the_ledger() {
    let (fresh, place, prefix) = (fresh::mysql().await, Place::new(), prefix());
    place.configure(&on_kafka("ledger.toml", &fresh.url(), &prefix));
    place.ok(&["migrate"]).await;
    let serve = place.start(&["serve", "--roles", "relay"]).await;
    let mut keys = 0;
    let mut post = async |path: &str, body: &str| {
        keys += 1;
        let headers = format!("content-type: application/json\r\nidempotency-key: {keys}\r\n");
        let (code, answer) = serve.request_with("POST", path, &headers, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    let mut open = async |owner: &str| {
        let body = format!(r#"{{"owner":"{owner}","name":"Everyday","currency":"KRW"}}"#);
        let account = post("/ledger/accounts", &body).await;
        format!("/ledger/accounts/{}/deposits", account["account_id"].as_str().unwrap())
    };
    let (ada, bob) = (open("ada").await, open("bob").await);
    post(&ada, r#"{"amount":1,"currency":"KRW"}"#).await;
    place.wait_for_route("ledger", |route| route["dead"] == 1).await;

    place.ok(&["topics", "apply"]).await;
    for amount in 2..=4 {
        post(&ada, &format!(r#"{{"amount":{amount},"currency":"KRW"}}"#)).await;
    }
    post(&bob, r#"{"amount":9,"currency":"KRW"}"#).await;
    place
        .wait_for_route("ledger", |route| {
            route["delivered"].as_u64() >= Some(1) && route["backlog"] == 0
        })
        .await;
    let failed = serve
        .wait_for("/ledger/events?state=FAILED", |_, body| body != "[]")
        .await;
    assert_eq!(failed.matches("account_id").count(), 1, "{failed}");
    place.ok(&["dead", "retry", "--route", "ledger"]).await;
    place.wait_for_route("ledger", |route| route["delivered"] == 5).await;
    let numbers = numbers_in_topic(&prefix, 5).await;
    let of_ada: Vec<i64> = numbers[&ada].clone();
    assert_eq!(of_ada, [1, 2, 3, 4], "{numbers:?}");
    serve.stop().await;
}

/// The sequence numbers of each account's events in the topic of the ledger, in the order of the topic; `events` of them.
async fn numbers_in_topic(prefix: &str, events: usize) -> HashMap<String, Vec<i64>> {
    let topics = OwnTopics::with_prefix(&variable("POSTROOM_TEST_KAFKA_URL"), prefix);
    let mut numbers: HashMap<String, Vec<i64>> = HashMap::new();
    for message in topics.read("ledger-events", events).await {
        let event = message.event().unwrap();
        let movement: ledger::Movement = event.decode().unwrap();
        let account = format!("/ledger/accounts/{}/deposits", movement.account_id);
        numbers.entry(account).or_default().push(movement.sequence_number);
    }
    numbers
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

/// The profile as it stands, but for its addresses.
fn community_on(store: &str, rabbitmq: &str, redis: &str) -> String {
    let profile = std::fs::read_to_string(profiles().join("community.toml")).unwrap();
    let mut profile: Table = profile.parse().unwrap();
    profile["store"]["url"] = store.into();
    profile["brokers"]["rabbitmq"]["url"] = rabbitmq.into();
    profile["brokers"]["redis"]["url"] = redis.into();
    profile.to_string()
}

/// The names of the specification are those of a server that nobody else uses.
#[tokio::test]
async fn the_community_works_with_its_profile_under_the_names_of_its_specification() {
    let (fresh, mut place) = (fresh::mysql().await, Place::new());
    let (rabbit, redis) = (rabbitmq_server::rabbitmq().await, redis_server::redis(&[]).await);
    place.set(
        "POSTROOM__ACCESS__MEMBERS__SECRET",
        "thirty-two bytes that nobody knows",
    );
    place.configure(&community_on(&fresh.url(), &rabbit.url(), &redis.url()));
    place.ok(&["migrate"]).await;
    let serve = place.start(&["serve", "--roles", "relay"]).await;
    let tokens = [token(&place, "1").await, token(&place, "2").await];
    let ask = async |member: usize, method: &str, path: &str, body: &str| {
        let headers = format!(
            "content-type: application/json\r\nauthorization: Bearer {}\r\n",
            tokens[member - 1]
        );
        let (code, answer) = serve.request_with(method, path, &headers, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    };
    ask(1, "POST", "/community/posts", r#"{"title":"Noodles","body":"good"}"#).await;
    ask(2, "PUT", "/community/posts/1/like", "").await;
    ask(2, "POST", "/community/posts/1/comments", r#"{"body":"yes"}"#).await;
    until("both are told", async || {
        let unread = ask(1, "GET", "/api/notifications/unread", "").await;
        unread == r#"{"unread":2}"#
    })
    .await;
    until("the comment is counted", async || {
        let post = ask(1, "GET", "/community/posts/1", "").await;
        post.contains(r#""commentCount":1"#)
    })
    .await;
    let queues = rabbit
        .control(&["list_queues", "name", "--no-table-headers"])
        .await
        .unwrap();
    for group in ["notification", "aggregate", "chat_persist", "chat_fanout"] {
        for queue in [format!("{group}_queue"), format!("{group}_dlq")] {
            assert!(
                queues.lines().any(|line| line.trim() == queue),
                "{queue} is not in {queues}"
            );
        }
    }
    let exchanges = rabbit
        .control(&["list_exchanges", "name", "--no-table-headers"])
        .await
        .unwrap();
    assert!(
        exchanges.lines().any(|line| line.trim() == "domain_events"),
        "{exchanges}"
    );
    assert!(
        !place.route("community-realtime").await.is_null(),
        "frames are published"
    );
    serve.stop().await;
}

async fn token(place: &Place, member: &str) -> String {
    place.ok(&["token", "member", member]).await.trim().to_owned()
}
