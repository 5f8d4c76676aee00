//! The ledger through Kafka, and the messages in its topic.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test harness: a panic fails the test"
)]

use std::collections::HashMap;
use std::time::Duration;

use ledger::Movement;
use postroom::{Broker, Join, Mark, Start};
use uuid::Uuid;

use crate::books;
use crate::world::{Place, World, on_every_store};

on_every_store! {
    events_reach_their_topic_in_order_for_each_account
}

/// The topic counts as quiet after this time without a message.
const QUIET: Duration = Duration::from_secs(5);

/// Reads all messages of the topic with a separate group, until `events` different events have arrived and the topic is
/// quiet.
pub(crate) async fn published(broker: &dyn Broker, events: usize) -> Vec<Movement> {
    let group = format!("reader-{}", Uuid::now_v7());
    let mut reader = broker
        .subscribe(Join::new(&group, &["ledger-events".to_owned()], Start::Beginning))
        .await
        .unwrap();
    let (mut movements, mut partitions) = (Vec::new(), HashMap::new());
    loop {
        let distinct: std::collections::HashSet<_> = movements.iter().map(at).collect();
        let patience = if distinct.len() < events {
            postroom_testkit::wait::PATIENCE
        } else {
            QUIET
        };
        let Ok(messages) = tokio::time::timeout(patience, reader.next(500)).await else {
            assert_eq!(distinct.len(), events, "different events in the topic");
            return movements;
        };
        for message in messages.unwrap() {
            let Mark::Offset { partition, .. } = message.mark else {
                panic!("{:?}", message.mark)
            };
            let event = message.event().unwrap();
            let movement: Movement = event.decode().unwrap();
            assert_eq!(event.aggregate_id, movement.account_id, "keyed by account");
            let known = *partitions.entry(event.aggregate_id).or_insert(partition);
            assert_eq!(known, partition, "an account stays in its partition");
            movements.push(movement);
        }
    }
}

pub(crate) fn at(movement: &Movement) -> (String, i64) {
    (movement.account_id.clone(), movement.sequence_number)
}

async fn events_reach_their_topic_in_order_for_each_account(place: Place) {
    let world = World::on(Place::through_kafka(place.fresh).await).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    ledger.deposit(&ada, 1_000).await.created();
    for _ in 0..10 {
        ledger.transfer(&ada, &bob, 10).await.created();
        ledger.transfer(&bob, &ada, 5).await.created();
    }
    books::settle(&world.fresh).await;
    let movements = published(&**world.broker.as_ref().unwrap(), 41).await;
    for account in [&ada, &bob] {
        let numbers = movements.iter().filter(|one| one.account_id == **account);
        let numbers: Vec<i64> = numbers.map(|one| one.sequence_number).collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as i64), "{numbers:?}");
    }
    world.close().await;
}
