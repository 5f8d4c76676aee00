//! The seam between what a client missed and what comes while it connects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use postroom_testkit::event_stream::EventStream;
use tokio::task::JoinSet;

use crate::stand::{Instance, settings};

const ROUNDS: u64 = 1_000;
const FRAMES: u64 = 20;

/// The numbers of the messages up to this one.
pub(crate) async fn numbers(stream: &mut EventStream, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let event = stream.next_named("message").await;
        assert_eq!(event.id, Some(event.json()["n"].to_string()));
        numbers.push(event.json()["n"].as_u64().unwrap());
    }
    numbers
}

/// Two writers publish while clients connect; one of the clients wants all, the other what comes from now on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_repeated_while_a_client_connects() {
    let instance = Arc::new(Instance::start(settings()).await);
    instance.shared.journal.lingers.store(true, Ordering::Relaxed);
    for round in 0..ROUNDS {
        let name = format!("seam/{round}");
        let mut writers = JoinSet::new();
        for _ in 0..2 {
            let (instance, name) = (Arc::clone(&instance), name.clone());
            writers.spawn(async move {
                for _ in 0..FRAMES / 2 {
                    instance.publish(&name).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        let (all, later) = (format!("1&stream={name}&after=0"), format!("2&stream={name}"));
        let (mut all, mut later) = tokio::join!(instance.open(&all), instance.open(&later));
        while writers.join_next().await.is_some() {}
        let expected: Vec<u64> = (1..=FRAMES).collect();
        assert_eq!(numbers(&mut all, FRAMES).await, expected, "round {round}");
        // One that began when all were written gets the next one.
        let last = instance.publish(&name).await.seq();
        let found = numbers(&mut later, last).await;
        let expected: Vec<u64> = (found[0]..=last).collect();
        assert_eq!(found, expected, "round {round}");
    }
    let ended = instance.metric("stand_stand_ended_total{reason=\"client\"}").await;
    assert!(ended > 0.0, "clients that are gone were noticed");
}

#[tokio::test]
async fn a_long_replay_goes_on_behind_its_first_page() {
    let instance = Instance::start(settings()).await;
    for _ in 0..3_000 {
        instance.shared.journal.append("member/1");
    }
    instance.shared.journal.page.store(10, Ordering::Relaxed);
    let mut stream = instance.open("1&after=2").await;
    let expected: Vec<u64> = (3..=3_000).collect();
    assert_eq!(numbers(&mut stream, 3_000).await, expected);
}

#[tokio::test]
async fn a_client_that_has_seen_nothing_resumes_where_it_began() {
    let instance = Instance::start(settings()).await;
    for _ in 0..5 {
        instance.shared.journal.append("member/1");
    }
    let mut stream = instance.open("1").await;
    let cursor = stream.next().await.unwrap();
    assert_eq!(
        (cursor.id.as_deref(), &*cursor.event, &*cursor.data),
        (Some("5"), "", "")
    );
    drop(stream);
    instance.publish("member/1").await;
    let mut again = instance.open("1&after=5").await;
    assert_eq!(numbers(&mut again, 6).await, [6]);
}
