//! What a broker brings more than once, or brings and nobody can read.

use std::sync::Arc;

use postroom::envelope::CLOUDEVENTS_JSON;
use postroom::{
    Broker as _, DatabaseTransaction, Entry, Envelope, Error, ErrorKind, Event, Filter, Relay, Result, Retry, Start,
    Subscriber, clock, dead, inspect,
};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::wait::{until, until_some};
use postroom_testkit::{Fresh, fresh};
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;

async fn handle(_tx: &DatabaseTransaction, event: &Event) -> Result<()> {
    match event.decode::<String>()?.as_str() {
        "poison" => Err(Error::new(ErrorKind::Failed, "no")),
        _ => Ok(()),
    }
}

fn structured(key: &str, note: &str) -> Vec<u8> {
    let event = Event::new("a.b.v1", "thing", key, to_raw_value(note).unwrap()).unwrap();
    let entry = Entry {
        id: 1,
        event,
        created_at: clock::now(),
    };
    Envelope::of(&entry).to_structured()
}

async fn letters(fresh: &Fresh) -> Vec<dead::DeadLetter> {
    let all = dead::Selection::default();
    dead::list(fresh.db(), &all, None, 10).await.unwrap()
}

/// Lets the subscriber work what the broker holds until it has delivered `count`.
async fn consume(fresh: &Fresh, broker: &MemoryBroker, attempts_max: u32, count: i64) -> inspect::RouteStatus {
    let mut subscriber = Subscriber::new("s", "**", handle);
    subscriber.joins_at = Start::Beginning; // what the broker holds is older than the group
    subscriber.retry = Retry {
        attempts_max: Some(attempts_max),
        ..Retry::default()
    };
    let route = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let delivered = || async {
        let status = inspect::status(&**fresh).await.unwrap();
        status.routes.into_iter().find(|route| route.delivered == count)
    };
    let watch = async {
        let route = until_some("they are delivered", delivered).await;
        stop.cancel();
        route
    };
    let (ended, route) = tokio::join!(relay, watch);
    ended.unwrap();
    route
}

/// A member that dies after it has parked a message and before it has acknowledged it gets it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_and_comes_again_is_parked_once() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well"), &poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    let route = consume(&fresh, &broker, 100, 2).await;
    assert_eq!(
        (route.retrying, route.waiting),
        (1, 0),
        "one row, not one for each time it came"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dead_and_comes_again_is_dead_once() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well"), &poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume(&fresh, &broker, 1, 2).await;
    assert_eq!(letters(&fresh).await.len(), 1);
    assert_eq!(broker.buried("t").await.len(), 1, "one copy");
}

/// What is published before the group is back came later than all it has had: it is not passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_its_broker_has_forgotten_misses_nothing() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    broker.put("t", CLOUDEVENTS_JSON, &structured("a", "well")).await;
    let route =
        Subscriber::new("s", "**", handle).fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let status = async || inspect::status(&*fresh).await.unwrap().routes.pop();
    let delivered = async |count| status().await.is_some_and(|route| route.delivered == count);
    let watch = async {
        let has_joined = async || broker.waiting("s", &["t".to_owned()]).await.unwrap() == 0;
        until("the group begins behind what is there", has_joined).await;
        broker.put("t", CLOUDEVENTS_JSON, &structured("b", "well")).await;
        until("it works", || delivered(1)).await;
        broker.stop().await;
        let is_away = async || status().await.is_some_and(|route| route.down.is_some());
        until("the broker is missed", is_away).await;
        broker.lose();
        broker.put("t", CLOUDEVENTS_JSON, &structured("c", "well")).await;
        broker.start().await;
        until("what came meanwhile is handled", || delivered(2)).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
}

/// There is no handler to give it to; that an operator asks must not make it vanish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_cannot_be_retried() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    for (content_type, body) in [
        ("text/plain", &b"no event"[..]),
        (CLOUDEVENTS_JSON, &structured("b", "well")),
    ] {
        broker.put("t", content_type, body).await;
    }
    consume(&fresh, &broker, 1, 1).await;
    let letter = letters(&fresh).await.pop().unwrap();
    let this = dead::Selection {
        dead_ids: vec![letter.dead_id],
        ..dead::Selection::default()
    };
    let refused = dead::retry(fresh.db(), &this, "ada").await.unwrap_err();
    assert!(
        refused.report().contains("is no event, which cannot be retried"),
        "{}",
        refused.report()
    );
    assert_eq!(
        dead::retry(fresh.db(), &dead::Selection::default(), "ada")
            .await
            .unwrap(),
        0
    );
    assert_eq!(letters(&fresh).await.pop().unwrap().state, "dead");
    assert_eq!(dead::discard(fresh.db(), &this, "ada", "garbage").await.unwrap(), 1);
}
