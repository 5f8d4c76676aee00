//! Messages in a form of their own, between two relays' ends.

use std::sync::{Arc, Mutex};

use postroom::{
    BoxError, Broker as _, Delays, Entry, Event, Filter, Handler, Relay, Result, Retry, Route, Subscriber, To, Tx,
    clock, dead, table,
};
use postroom_proof::Change;
use postroom_testkit::broker_suite::{Site as _, form};
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use tokio_util::sync::CancellationToken;

/// Keeps the events that it handles; fails on those of the key `poison`.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Event>>>);

impl Handler for Kept {
    async fn handle(&self, _tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        if event.aggregate_id == "poison" {
            return Err("it is poison".into());
        }
        self.0.lock().unwrap().push(event.clone());
        Ok(())
    }
}

async fn emit(fresh: &Fresh, key: &str) -> Event {
    let change = Change {
        key: key.to_owned(),
        ver: 1,
    };
    let tx = table::begin(fresh.db()).await.unwrap();
    let event = Event::of(&change).unwrap().header("tenant", "acme");
    postroom::append(&tx, std::slice::from_ref(&event)).await.unwrap();
    tx.commit().await.unwrap();
    event
}

fn relay(fresh: &Fresh, broker: &MemoryBroker, handler: Kept) -> Relay {
    let retry = Retry {
        delays: Delays::Fixed(std::time::Duration::from_millis(20)),
        attempts_max: Some(2),
        age_max: None,
    };
    let subscriber = Subscriber::matching("s", ["**"], handler).retry(retry).form(&form());
    let publisher = broker.publisher("t".parse().unwrap(), form().mode());
    let publish = Route {
        awaits: vec!["s".to_owned()],
        ..Route::new("publish", To::Destination(publisher))
    };
    let fed = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    Relay::new(fresh.store()).route(publish).route(fed)
}

/// An event takes the way through a form that has no place for its key, its headers and its cause, and is the same event; so is a
/// message that somebody sends again without what we keep beside the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_in_a_form_of_its_own_stays_itself_and_has_one_effect() {
    let (fresh, kept) = (fresh::sqlite().await, Kept::default());
    let mut broker = MemoryBroker::default();
    let sent = emit(&fresh, "a").await;
    let stop = CancellationToken::new();
    let running = relay(&fresh, &broker, kept.clone()).run(stop.clone());
    let watch = async {
        until("it is handled", || async { kept.0.lock().unwrap().len() == 1 }).await;
        let entry = Entry {
            id: 1,
            event: sent.clone(),
            created_at: clock::now(),
        };
        let body = form().writer.write(&entry).unwrap().body;
        broker.put("t", "application/json", &body).await;
        let behind = emit(&fresh, "b").await;
        let is_behind = || async { kept.0.lock().unwrap().iter().any(|event| event.id == behind.id) };
        until("what was sent later is handled", is_behind).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(running, watch);
    ended.unwrap();
    let kept = kept.0.lock().unwrap();
    assert_eq!(kept.len(), 2, "one effect each: {kept:?}");
    assert_eq!((kept[0].id, kept[0].key()), (sent.id, sent.key()));
    assert_eq!(kept[0].headers.get("tenant").map(String::as_str), Some("acme"));
    assert_eq!(kept[0].payload.get(), sent.payload.get());
}

/// A dead letter's copy can be read by whoever reads the topic, also if the letter was retried before and its message is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_of_a_dead_letter_has_the_form_of_its_message() {
    let (fresh, mut broker) = (fresh::sqlite().await, MemoryBroker::default());
    let sent = emit(&fresh, "poison").await;
    let stop = CancellationToken::new();
    let running = relay(&fresh, &broker, Kept::default()).run(stop.clone());
    let watch = async {
        until("it is a dead letter", || async {
            let all = dead::Selection::default();
            dead::list(fresh.db(), &all, None, 10).await.unwrap().len() == 1
        })
        .await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(running, watch);
    ended.unwrap();
    let copies = broker.dead_letters("t").await;
    let body = format!(r#""eventId":"{}""#, sent.id);
    assert!(copies.len() == 1 && copies[0].contains(&body), "{copies:?}");
}
