//! The hub reads the journal to repair frames that the fan-out has lost, repeated or mixed up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_realtime::{HubSettings, StreamKey};
use postroom_testkit::wait::until;
use tokio::time::Instant;

use crate::seam::numbers;
use crate::stand::{Instance, settings};

const STREAM: &str = "member/1";

#[tokio::test]
async fn a_gap_is_repaired_at_once() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    instance.publish(STREAM).await;
    instance.shared.journal.append(STREAM); // published by nobody
    instance.publish(STREAM).await;
    assert_eq!(numbers(&mut stream, 3).await, [1, 2, 3]);
    assert!(instance.metric("stand_stand_gaps_total").await >= 1.0);
}

#[tokio::test]
async fn a_lost_tail_is_found_by_the_tail_check() {
    let settings = HubSettings {
        tail_check_every: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut stream = instance.open_settled("1").await;
    instance.publish(STREAM).await;
    instance.shared.faults.loses.store(true, Ordering::Relaxed);
    let lost = Instant::now();
    instance.publish(STREAM).await;
    instance.publish(STREAM).await;
    assert_eq!(numbers(&mut stream, 3).await, [1, 2, 3]);
    assert!(lost.elapsed() < Duration::from_secs(3), "{:?}", lost.elapsed());
}

#[tokio::test]
async fn a_listener_that_breaks_loses_nothing() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    instance.publish(STREAM).await;
    instance.shared.faults.loses.store(true, Ordering::Relaxed);
    instance.publish(STREAM).await;
    instance.shared.faults.cut();
    assert_eq!(numbers(&mut stream, 2).await, [1, 2]);
    assert!(instance.metric("stand_stand_listener_failures_total").await >= 1.0);
}

#[tokio::test]
async fn frames_that_come_mixed_up_and_repeated_arrive_in_order_and_once() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    let frames: Vec<_> = (0..20).map(|_| instance.shared.journal.append(STREAM)).collect();
    for at in [4, 2, 2, 0, 1, 19, 3, 0, 19, 7, 12, 6, 5] {
        instance.send(STREAM, &frames[at]).await;
    }
    let last = instance.publish(STREAM).await.seq();
    let expected: Vec<u64> = (1..=last).collect();
    assert_eq!(numbers(&mut stream, last).await, expected);
    for _ in 0..3 {
        instance.send(STREAM, &frames[19]).await;
        let newest = instance.publish(STREAM).await;
        instance.send(STREAM, &newest).await;
    }
    assert_eq!(numbers(&mut stream, last + 3).await, [last + 1, last + 2, last + 3]);
}

#[tokio::test]
async fn one_read_serves_all_connections_of_a_stream() {
    let instance = Instance::start(settings()).await;
    let mut streams = Vec::new();
    for member in 0..50 {
        streams.push(instance.open(&format!("{member}&stream=room/1")).await);
    }
    instance.shared.journal.append("room/1");
    instance.publish("room/1").await;
    for stream in &mut streams {
        assert_eq!(numbers(stream, 2).await, [1, 2]);
    }
    // One more if the stream became dirty again during the first.
    let reads = instance.shared.journal.reads.load(Ordering::Relaxed);
    assert!((1..=3).contains(&reads), "{reads} reads");
}

#[tokio::test]
async fn a_database_that_is_away_is_asked_again_and_not_all_the_time() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    instance.shared.journal.append(STREAM);
    let second = instance.shared.journal.append(STREAM);
    instance.shared.journal.is_away.store(true, Ordering::Relaxed);
    for _ in 0..100 {
        instance.send(STREAM, &second).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let journal = &instance.shared.journal;
    let reads = journal.reads.load(Ordering::Relaxed);
    assert!((1..=8).contains(&reads), "{reads} reads in two seconds");
    journal.is_away.store(false, Ordering::Relaxed);
    assert_eq!(numbers(&mut stream, 2).await, [1, 2]);
}

#[tokio::test]
async fn a_removed_row_ends_the_connection_that_still_needs_it() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    let mut other = instance.open("2").await;
    for _ in 0..5 {
        instance.shared.journal.append(STREAM);
    }
    instance.shared.journal.prune(STREAM, 3);
    instance.publish(STREAM).await;
    let rest = stream.rest().await;
    let last = rest.last().unwrap();
    assert_eq!(
        (&*last.event, last.json()["reason"].as_str()),
        ("end", Some("gap")),
        "{rest:?}"
    );
    instance.publish("member/2").await;
    assert_eq!(numbers(&mut other, 1).await, [1]);
}

#[tokio::test]
async fn a_restored_database_ends_the_connections_that_are_ahead_of_it() {
    let settings = HubSettings {
        tail_check_every: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut stream = instance.open_settled("1").await;
    for _ in 0..5 {
        instance.publish(STREAM).await;
    }
    assert_eq!(numbers(&mut stream, 5).await, [1, 2, 3, 4, 5]);
    instance.shared.journal.restore(STREAM, 2);
    let end = stream.next_named("end").await;
    assert_eq!(end.json()["reason"], "gap");
}

#[tokio::test]
async fn silent_frames_advance_the_stream_and_are_not_shown() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open_settled("1").await;
    for _ in 0..50 {
        let silent = instance.shared.journal.append_silent(STREAM);
        instance.send(STREAM, &silent).await;
    }
    instance.publish(STREAM).await;
    assert_eq!(numbers(&mut stream, 51).await, [51]);
    let reads = instance.shared.journal.reads.load(Ordering::Relaxed);
    assert_eq!(reads, 0, "no frame was missing");
    // Read from the journal, they are silent too.
    instance.shared.journal.append_silent(STREAM);
    instance.publish(STREAM).await;
    assert_eq!(numbers(&mut stream, 53).await, [53]);
}

#[tokio::test]
async fn an_opening_costs_one_look_for_many_streams() {
    let instance = Instance::start(settings()).await;
    let mut streams = Vec::new();
    for member in 0..100 {
        streams.push(instance.open(&format!("{member}")).await);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let journal = &instance.shared.journal;
    let (reads, looks) = (
        journal.reads.load(Ordering::Relaxed),
        journal.looks.load(Ordering::Relaxed),
    );
    assert_eq!(reads, 0);
    assert!(looks < 50, "{looks} looks for 100 openings");
}

#[tokio::test]
async fn a_message_that_is_no_frame_is_counted_and_passed_over() {
    let instance = Instance::start(settings()).await;
    let mut stream = instance.open("1").await;
    let fan_out = &instance.shared.state.fan_out;
    let bodies: [&[u8]; 6] = [
        b"",
        b"member/1",
        b"member/1\n",
        b"member/1\n{",
        b"member/1\n\xff",
        b"!evicted\n7",
    ];
    let messages = bodies.map(|body| postroom_shared::fan_out::Message {
        channel: "realtime:stand".to_owned(),
        body: body.to_vec(),
    });
    fan_out.publish(&messages).await.unwrap();
    instance.publish(STREAM).await;
    assert_eq!(numbers(&mut stream, 1).await, [1]);
    until("the messages are counted", async || {
        instance.metric("stand_stand_malformed_total").await == 6.0
    })
    .await;
    let frame = instance.shared.journal.append("a");
    let refused = instance.hub.publish(&[(StreamKey::from("a\nb"), frame)]).await;
    assert_eq!(refused.unwrap_err().kind(), postroom::ErrorKind::Invalid);
}
