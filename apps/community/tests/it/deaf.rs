//! The last message before silence: the fan-out has lost it, and nothing comes after it that would show the gap.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use std::time::Duration;

use postroom_testkit::foreign::redis_cli;
use postroom_testkit::wait::until;
use postroom_testkit::{Client, fresh, redis_server};
use serde_json::json;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::chat::town::Town;
use crate::world::Place;

const ROUNDS: usize = 4;
/// How soon a message must be there.
const ARRIVES_WITHIN: Duration = Duration::from_secs(15);
/// Of two hubs in each of two instances.
const LISTENERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_05_n_10_the_last_message_arrives_though_all_listeners_were_cut_off() {
    let redis = redis_server::redis(&[]).await;
    let place = Place::from(fresh::mysql().await).on_redis(redis.url());
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    let (mut stream, ..) = town.0.member_at(2, 1).begin(0).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let text = Uuid::now_v7().to_string();
        until("all hubs listen", || async { listeners(&redis.url()) == LISTENERS }).await;
        let published = publications(&redis.url());
        cut_off(&redis.url());
        let said = Instant::now();
        ada.say(room, &text).await;
        // One for the room, and one for the stream of the member.
        while publications(&redis.url()) < published + 2 {
            cut_off(&redis.url());
        }
        let arrives = async {
            let event = stream.next_named("chat").await.json();
            assert_eq!(event.get("message"), Some(&json!(text)));
            let message = socket.named("message").await;
            assert_eq!(message.pointer("/data/body"), Some(&json!(text)));
        };
        timeout(ARRIVES_WITHIN.saturating_sub(said.elapsed()), arrives)
            .await
            .unwrap();
        slowest = slowest.max(said.elapsed());
    }
    println!("the slowest of {ROUNDS} messages arrived after {slowest:.1?}");
    for hub in ["community_notification", "community_chat"] {
        let repaired = metric(&bob.client, &format!("{hub}_repaired_total")).await;
        assert!(repaired > 0.0, "{hub}: the fan-out has lost messages");
    }
    town.close().await;
}

/// Cuts off all listeners.
fn cut_off(redis: &str) {
    redis_cli(redis, &["CLIENT", "KILL", "TYPE", "pubsub"]);
}

fn listeners(redis: &str) -> usize {
    redis_cli(redis, &["CLIENT", "LIST", "TYPE", "pubsub"])
        .trim()
        .lines()
        .count()
}

/// How many messages were published since the server began.
fn publications(redis: &str) -> u64 {
    let counts = redis_cli(redis, &["INFO", "commandstats"]);
    let calls = counts
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

/// A number on the page of metrics.
async fn metric(client: &Client, name: &str) -> f64 {
    let page = client.get("/metrics").await.body;
    let lines = page.as_str().unwrap().lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.next().unwrap().parse().unwrap()
}
