//! The end of a process: connections end evenly, and the process ends after them.

use std::time::Duration;

use postroom_testkit::event_stream::EventStream;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::stand::{Instance, settings};

const STREAMS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_end_evenly_and_then_the_process_ends() {
    let instance = Instance::start(settings()).await;
    let mut readers = JoinSet::new();
    for member in 0..STREAMS {
        let mut stream = instance.open(&member.to_string()).await;
        readers.spawn(async move {
            let end = stream.next_named("end").await;
            assert!(stream.next().await.is_none());
            let ended = Instant::now();
            let json = end.json();
            assert_eq!(json["reason"], "drain");
            (ended, Duration::from_millis(json["retryMs"].as_u64().unwrap()))
        });
    }
    let begun = Instant::now();
    instance.stop().await;
    let stopped = begun.elapsed();
    assert!(stopped < Duration::from_secs(10), "{stopped:?}");
    let ended = readers.join_all().await;
    let most = |times: Vec<Duration>| {
        let seconds = times.iter().map(Duration::as_secs);
        let counts = seconds.fold([0; 60], |mut counts, second| {
            counts[usize::try_from(second).unwrap()] += 1;
            counts
        });
        counts.into_iter().max().unwrap()
    };
    let ends = ended.iter().map(|(at, _)| *at - begun).collect();
    let returns = ended.iter().map(|(at, retry)| *at + *retry - begun).collect();
    let (ends, returns) = (most(ends), most(returns));
    assert!(
        ends <= STREAMS / 5 && returns <= STREAMS / 5,
        "in one second {ends} ended, {returns} come back"
    );
}

#[tokio::test]
async fn few_connections_end_at_once_and_nothing_new_is_opened() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open("1").await;
    let mut talk = instance.socket("member=2").await;
    let mut silent = instance.socket("").await;
    talk.send(&json!({ "type": "join", "roomId": 1 })).await;
    talk.next_named("joined").await;
    instance.begin_stop();
    assert_eq!(stream.next_named("end").await.json()["reason"], "drain");
    let end = talk.next_named("end").await;
    assert_eq!(end["reason"], "drain");
    assert_eq!(talk.closed().await, (1012, "drain".to_owned()));
    assert_eq!(
        silent.closed().await.0,
        1012,
        "a client that has not authenticated itself"
    );
    let again = EventStream::try_open(&instance.url, "/stand/stream?member=1", &[]).await;
    assert!(again.is_err(), "nothing is accepted any more");
    for socket in [&mut talk, &mut silent] {
        socket.close().await;
    }
    let begun = Instant::now();
    instance.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
