//! Clients that read slowly, or not at all.

use std::sync::Arc;
use std::time::Duration;

use postroom_realtime::HubSettings;
use postroom_testkit::event_stream::EventStream;
use tokio::time::{Instant, sleep};

use crate::seam::numbers;
use crate::stand::{Instance, settings};

const STREAM: &str = "member/1";

/// A client that the system buffers little for.
async fn small(instance: &Instance, query: &str) -> EventStream {
    let path = format!("/stand/stream?member={query}");
    EventStream::open_with_buffer(&instance.url, (&path, &[]), Some(4_096))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_burst_beyond_the_queue_is_read_from_the_journal() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open("1").await;
    let frames: Vec<_> = (0..5_000).map(|_| instance.shared.journal.append(STREAM)).collect();
    let frames: Vec<_> = frames.into_iter().map(|frame| (STREAM.into(), frame)).collect();
    instance.hub.publish(&frames).await.unwrap();
    let expected: Vec<u64> = (1..=5_000).collect();
    assert_eq!(numbers(&mut stream, 5_000).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_is_closed_and_resumes_exactly_and_delays_nobody() {
    let settings = HubSettings {
        stall_max: Duration::from_secs(2),
        ..settings()
    };
    let instance = Arc::new(Instance::start(settings).await);
    let mut stalled = small(&instance, "1").await;
    let mut other = instance.open("1").await;
    let writer = {
        let instance = Arc::clone(&instance);
        tokio::task::JoinSet::from_iter([async move {
            let text = "x".repeat(2_000);
            for _ in 0..3_000 {
                let frame = instance.shared.journal.append_text(STREAM, &text);
                instance.send(STREAM, &frame).await;
                sleep(Duration::from_millis(1)).await;
            }
        }])
    };
    let mut slowest = Duration::ZERO;
    for expected in 1..=3_000_u64 {
        let asked = Instant::now();
        let event = other.next_named("message").await;
        assert_eq!(event.json()["n"], expected);
        slowest = slowest.max(asked.elapsed());
    }
    writer.join_all().await;
    assert!(slowest < Duration::from_millis(500), "{slowest:?} without a frame");
    sleep(Duration::from_secs(3)).await; // it is stalled for longer than it may be
    let mut read: Vec<u64> = Vec::new();
    let reason = loop {
        let event = stalled.next().await.unwrap();
        match &*event.event {
            "message" => read.push(event.json()["n"].as_u64().unwrap()),
            "end" => break event.json()["reason"].clone(),
            _ => {}
        }
    };
    assert_eq!(reason, "slow");
    assert!(stalled.next().await.is_none());
    let last = *read.last().unwrap();
    assert!(last < 3_000, "it was stalled");
    let mut again = instance.open(&format!("1&after={last}")).await;
    read.extend(numbers(&mut again, 3_000).await);
    let expected: Vec<u64> = (1..=3_000).collect();
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_client_that_reads_slowly_stays() {
    let settings = HubSettings {
        stall_max: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut stream = small(&instance, "1").await;
    let text = "x".repeat(20_000);
    let frames: Vec<_> = (0..500)
        .map(|_| instance.shared.journal.append_text(STREAM, &text))
        .collect();
    for frame in &frames {
        instance.send(STREAM, frame).await;
    }
    let mut read = Vec::new();
    for _ in 0..500 {
        read.push(stream.next_named("message").await.json()["n"].as_u64().unwrap());
        sleep(Duration::from_millis(10)).await;
    }
    let expected: Vec<u64> = (1..=500).collect();
    assert_eq!(read, expected);
}
