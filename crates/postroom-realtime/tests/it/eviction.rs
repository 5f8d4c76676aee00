//! At most three connections per member over all instances; the oldest gives way, and does not come back by itself.

use std::sync::Arc;
use std::time::Duration;

use postroom_host::Serving;
use postroom_realtime::HubSettings;
use postroom_shared::fan_out::{LocalFanOut, Message};
use postroom_testkit::event_stream::EventStream;
use tokio::time::Instant;

use crate::seam::numbers;
use crate::stand::{Instance, Shared, limits, settings};

async fn two() -> [Instance; 2] {
    let shared = Shared::new();
    let settings = settings().limits(limits());
    let first = Instance::join(settings.clone(), shared.clone(), Serving::default()).await;
    [first, Instance::join(settings, shared, Serving::default()).await]
}

/// The last event of a stream that was evicted.
async fn is_evicted(stream: &mut EventStream) {
    let evicted = stream.next_named("evicted").await;
    assert_eq!(evicted.data, "{}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_fourth_connection_evicts_the_oldest_on_any_instance_within_a_second() {
    let [one, two] = two().await;
    let mut oldest = one.open("42&tab=a").await;
    let mut others = [two.open("42&tab=b").await, one.open("42&tab=c").await];
    let begun = Instant::now();
    let fourth = two.open("42&tab=d").await;
    is_evicted(&mut oldest).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    one.publish("member/42").await;
    for stream in &mut others {
        assert_eq!(numbers(stream, 1).await, [1], "the others go on");
    }
    drop(fourth);
}

#[tokio::test]
async fn an_evicted_client_that_comes_back_by_itself_is_refused_on_every_instance() {
    let [one, two] = two().await;
    let mut first = one.open("42&tab=a").await;
    let id = first.header("x-connection-id").unwrap().to_owned();
    let _others = [
        two.open("42&tab=b").await,
        two.open("42&tab=c").await,
        two.open("42&tab=d").await,
    ];
    is_evicted(&mut first).await;
    tokio::time::sleep(Duration::from_millis(300)).await; // clients come back after a second at least
    for instance in [&one, &two] {
        assert_eq!(instance.stream("42&tab=a").await.status, 204);
        let named = [("x-connection-id", id.as_str())];
        let again = EventStream::open(&instance.url, "/stand/stream?member=42", &named).await;
        assert_eq!(again.status, 204);
        assert_eq!(
            instance.stream("43&tab=a").await.status,
            200,
            "the tab of another member"
        );
    }
    assert_eq!(
        one.stream("42&tab=new").await.status,
        200,
        "a tab that somebody has opened"
    );
}

#[tokio::test]
async fn clients_that_reconnect_by_themselves_do_not_evict_each_other_for_ever() {
    let [one, two] = two().await;
    let mut connects = 0;
    let mut waiting = vec!["a", "b", "c", "d"];
    let mut open = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        for tab in std::mem::take(&mut waiting) {
            connects += 1;
            let stream = [&one, &two][connects % 2].stream(&format!("42&tab={tab}")).await;
            if stream.status == 200 {
                open.push((tab, stream)); // 204 ends the reconnects of an EventSource
            }
        }
        let mut still_open = Vec::new();
        for (tab, mut stream) in open {
            match tokio::time::timeout(Duration::from_millis(50), stream.next_named("evicted")).await {
                Ok(_) => waiting.push(tab),
                Err(_elapsed) => still_open.push((tab, stream)),
            }
        }
        open = still_open;
    }
    assert_eq!((connects, open.len()), (5, 3));
}

#[tokio::test]
async fn a_message_made_by_hand_ends_exactly_one_stream() {
    let instance = Instance::start(settings().limits(limits())).await;
    let mut streams = [instance.open("42&tab=a").await, instance.open("42&tab=b").await];
    let mut other = instance.open("43").await;
    let id = streams[1].header("x-connection-id").unwrap().to_owned();
    let disconnect = async |body: String| {
        let message = Message {
            channel: "sse:notification:disconnect".to_owned(),
            body: body.into_bytes(),
        };
        instance.shared.state.fan_out.publish(&[message]).await.unwrap();
    };
    disconnect(format!(r#"{{"memberId":"43","connectionId":"{id}"}}"#)).await; // not that member's
    disconnect(r#"{"memberId":"42"}"#.to_owned()).await;
    disconnect("no JSON".to_owned()).await;
    disconnect(format!(r#"{{"memberId":42,"connectionId":"{id}"}}"#)).await;
    is_evicted(&mut streams[1]).await;
    for member in ["member/42", "member/43"] {
        instance.publish(member).await;
    }
    assert_eq!(numbers(&mut streams[0], 1).await, [1]);
    assert_eq!(numbers(&mut other, 1).await, [1]);
    instance.has(2).await;
    assert_eq!(instance.stream("42&tab=b").await.status, 204);
}

#[tokio::test]
async fn a_member_ends_a_connection_on_another_instance() {
    let [one, two] = two().await;
    let mut stream = one.open("42").await;
    let id = stream.header("x-connection-id").unwrap().parse().unwrap();
    two.hub.disconnect("41", id).await.unwrap();
    two.hub.disconnect("42", id).await.unwrap();
    is_evicted(&mut stream).await;
    one.has(0).await;
}

/// The registry announces evictions where nobody listens.
#[tokio::test]
async fn an_eviction_that_was_not_announced_is_noticed_at_the_ping() {
    let mut shared = Shared::new();
    shared.state.fan_out = Arc::new(LocalFanOut::new());
    let settings = HubSettings {
        ping_every: Duration::from_secs(1),
        ..settings().limits(limits())
    };
    let one = Instance::join(settings.clone(), shared.clone(), Serving::default()).await;
    let two = Instance::join(settings, shared, Serving::default()).await;
    let mut oldest = one.open("42").await;
    let _younger = [two.open("42").await, two.open("42").await, two.open("42").await];
    let begun = Instant::now();
    is_evicted(&mut oldest).await;
    assert!(begun.elapsed() < Duration::from_secs(3));
}
