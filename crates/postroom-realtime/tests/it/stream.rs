//! The form of a stream of server-sent events.

use std::time::Duration;

use postroom_realtime::HubSettings;
use postroom_testkit::wait::PATIENCE;
use tokio::time::{Instant, timeout};

use crate::stand::{Instance, limits, settings};

#[tokio::test]
async fn the_headers_keep_proxies_from_buffering() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.stream("1").await;
    let check = |name: &str, expected: &str| assert_eq!(stream.header(name), Some(expected), "{name}");
    assert_eq!(stream.status, 200);
    check("content-type", "text/event-stream");
    check("cache-control", "no-cache, no-store, no-transform");
    check("x-accel-buffering", "no");
    check("connection", "keep-alive");
    let id = stream.header("x-connection-id").unwrap();
    assert_eq!(id.len(), 36);
    let first = stream.next().await.unwrap();
    let retry = first.retry.unwrap();
    assert!((3_000..=6_000).contains(&retry), "{retry}");
    assert_eq!((first.id, &*first.event), (None, ""));
}

#[tokio::test]
async fn a_client_sees_a_sign_of_life_at_every_ping() {
    let settings = HubSettings {
        ping_every: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut stream = instance.open("1").await;
    stream.next_named("ping").await;
    for _ in 0..3 {
        let last = Instant::now();
        let ping = stream.next_named("ping").await;
        assert!(ping.json()["at"].as_i64().unwrap() > 1_700_000_000_000);
        let waited = last.elapsed();
        let expected = Duration::from_millis(500)..Duration::from_millis(1_700);
        assert!(expected.contains(&waited), "{waited:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_gives_back_its_place() {
    let instance = Instance::start(settings().limits(limits())).await;
    for _ in 0..5 {
        let streams = [
            instance.open("1").await,
            instance.open("1").await,
            instance.open("1").await,
        ];
        instance.has(3).await;
        drop(streams);
        instance.has(0).await;
    }
    let refused = instance.metric("stand_stand_ended_total{reason=\"client\"}").await;
    assert!((refused - 15.0).abs() < 0.5, "nobody was evicted: {refused}");
}

#[tokio::test]
async fn a_client_that_comes_while_the_hub_begins_waits_for_it() {
    let instance = Instance::start(settings()).await;
    let stream = timeout(PATIENCE, instance.open("1")).await;
    assert!(stream.is_ok());
}
