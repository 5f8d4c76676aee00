//! The shared state cannot be reached: connections end with a reason, and come back when it does.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_realtime::HubSettings;
use postroom_testkit::wait::until;
use tokio::time::{Instant, sleep};

use crate::seam::numbers;
use crate::stand::{Instance, limits, settings};

fn impatient() -> HubSettings {
    HubSettings {
        unavailable_after: Duration::from_secs(2),
        ping_every: Duration::from_secs(1),
        ..settings().limits(limits())
    }
}

#[tokio::test]
async fn streams_end_with_a_reason_and_are_refused_until_it_is_back() {
    let instance = Instance::start(impatient()).await;
    let mut stream = instance.open("1").await;
    instance.publish("member/1").await;
    assert_eq!(numbers(&mut stream, 1).await, [1]);
    let begun = Instant::now();
    instance.shared.faults.away(true);
    let end = stream.next_named("end").await;
    assert_eq!(end.json()["reason"], "unavailable");
    let lived = begun.elapsed();
    assert!(
        lived > Duration::from_millis(1_900) && lived < Duration::from_secs(4),
        "{lived:?}"
    );
    let refused = instance.stream("1").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    instance.shared.faults.away(false);
    until("streams are open again", async || {
        instance.stream("1").await.status == 200
    })
    .await;
    let mut again = instance.open("1&after=1").await;
    instance.publish("member/1").await;
    assert_eq!(numbers(&mut again, 2).await, [2]);
}

#[tokio::test]
async fn a_short_interruption_ends_no_stream() {
    let instance = Instance::start(impatient()).await;
    let mut stream = instance.open_settled("1").await;
    for _ in 0..3 {
        instance.shared.faults.away(true);
        sleep(Duration::from_millis(700)).await;
        instance.shared.journal.append("member/1"); // published while nobody listens
        instance.shared.faults.away(false);
        sleep(Duration::from_millis(1_500)).await;
    }
    let last = instance.publish("member/1").await.seq();
    assert_eq!(numbers(&mut stream, last).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_database_that_is_away_refuses_streams_and_ends_none() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open("1").await;
    instance.shared.journal.is_away.store(true, Ordering::Relaxed);
    let refused = instance.stream("2").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")));
    instance.has(1).await;
    instance.shared.journal.is_away.store(false, Ordering::Relaxed);
    instance.publish("member/1").await;
    assert_eq!(numbers(&mut stream, 1).await, [1]);
}
