//! Connections that end by themselves.

use std::time::Duration;

use postroom_realtime::HubSettings;
use tokio::time::Instant;

use crate::stand::{Instance, settings};

#[tokio::test]
async fn a_stream_ends_within_a_second_of_the_expiry_of_its_token() {
    let instance = Instance::start(settings()).await;
    for ms in [700, 1_500, 2_900] {
        let begun = Instant::now();
        let mut stream = instance.open(&format!("1&expires_in_ms={ms}")).await;
        let end = stream.next_named("end").await;
        let lived = begun.elapsed();
        assert_eq!(end.json()["reason"], "expired");
        assert_eq!(end.retry, end.json()["retryMs"].as_u64());
        assert!(stream.next().await.is_none(), "the response ends as it should");
        let due = Duration::from_millis(ms);
        assert!(
            lived >= due && lived < due + Duration::from_secs(1),
            "{lived:?} instead of {due:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_expires_far_beyond_the_next_ping_ends_its_stream_too() {
    let settings = HubSettings {
        ping_every: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let begun = Instant::now();
    let mut stream = instance.open("1&expires_in_ms=3500").await;
    stream.next_named("end").await;
    let lived = begun.elapsed();
    let expected = Duration::from_millis(3_500)..Duration::from_millis(4_500);
    assert!(expected.contains(&lived), "{lived:?}");
}

#[tokio::test]
async fn a_stream_ends_in_the_last_fifth_of_its_life() {
    let settings = HubSettings {
        lifetime: Duration::from_secs(3),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let begun = Instant::now();
    let mut streams = Vec::new();
    for member in 0..20 {
        streams.push(instance.open(&member.to_string()).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.next_named("end").await.json()["reason"], "lifetime");
        let lived = begun.elapsed();
        assert!(
            lived > Duration::from_millis(2_300) && lived < Duration::from_secs(5),
            "{lived:?}"
        );
    }
}
