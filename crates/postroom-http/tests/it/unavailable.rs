//! A receiver that returns 503 for one event, like a gateway whose backend crashes on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::dead::{self, Selection};
use postroom::{Delays, Event, Mode, Relay, Retry, Route, To, append, table};
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use tokio_util::sync::CancellationToken;

use crate::receiver::Receiver;

const GOOD: usize = 500;

fn event(event_type: &str, key: String) -> Event {
    let payload = serde_json::value::RawValue::NULL.to_owned();
    Event::new(event_type, "suite", key, payload).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_answered_with_503_holds_only_its_key_and_is_given_up() {
    let receiver = Receiver::open(Mode::Structured, &[]).await;
    let fresh = fresh::sqlite().await;
    let route = Route {
        retry: Retry {
            delays: Delays::Fixed(Duration::from_millis(50)),
            attempts_max: Some(5),
            age_max: None,
        },
        ..Route::new("hook", To::Destination(Arc::new(receiver.webhook.clone())))
    };
    let emit = async |events: Vec<Event>| {
        let tx = table::begin(fresh.db()).await.unwrap();
        append(&tx, &events).await.unwrap();
        tx.commit().await.unwrap();
    };
    let arrived = || receiver.requests.lock().unwrap().len();
    let watch = async {
        emit(vec![event("shop.down.v1", "bad".into())]).await;
        let begun = Instant::now();
        let good = (0..GOOD).map(|n| event("shop.order.paid.v1", (n % 50).to_string()));
        emit(good.collect()).await;
        until("the others arrive", || async { arrived() >= GOOD }).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
        let letters = async || dead::list(fresh.db(), &Selection::default(), None, 10).await.unwrap();
        let is_dead = || async {
            emit(vec![event("shop.order.paid.v1", "other".into())]).await;
            !letters().await.is_empty()
        };
        until("the bad one is given up", is_dead).await;
        assert_eq!(letters().await[0].attempts, 5);
    };
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let watch = async {
        watch.await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
}
