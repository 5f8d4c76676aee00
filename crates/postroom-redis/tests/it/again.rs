//! Duplicate events from other programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::envelope::CLOUDEVENTS_JSON;
use postroom::{
    BoxError, Broker, Event, Filter, Handler, Mode, Relay, Result, Route, Subscriber, To, Tx, operate, table,
};
use postroom_testkit::broker_suite;
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::events::name;
use crate::site::shared;

/// Counts handled events.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicUsize>);

impl Handler for Counter {
    async fn handle(&self, _tx: &mut Tx, _event: &Event) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Source and id identify an event. A till sends its event twice, and a mirror sends a published event again, without Postroom's
/// extensions or with another sequence. Each event has one effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_others_send_again_has_one_effect() {
    let (mut site, fresh, counter) = (shared().await, fresh::sqlite().await, Counter::default());
    let topic = name("again");
    broker_suite::Site::create(&mut site, &topic, 1).await;
    let broker: Arc<dyn Broker> = Arc::new(site.broker.clone());
    let ours = Event::new(
        "shop.order.paid.v1",
        "Order",
        "7",
        RawValue::from_string("{}".to_owned()).unwrap(),
    )
    .unwrap();
    let tx = table::begin(fresh.db()).await.unwrap();
    postroom::append(&tx, std::slice::from_ref(&ours)).await.unwrap();
    tx.commit().await.unwrap();
    let publish = Route {
        awaits: vec!["s".to_owned()],
        ..Route::new(
            "publish",
            To::Destination(broker.publisher(topic.parse().unwrap(), Mode::Binary)),
        )
    };
    let subscriber = Subscriber::matching("s", ["**"], counter.clone());
    let relay = Relay::new(fresh.store())
        .route(subscriber.fed_by(broker, vec![topic.clone()], Filter::all()))
        .route(publish);
    let stop = CancellationToken::new();
    let delivered = async |count: i64| {
        let is_delivered = || async {
            let status = operate::status(&*fresh).await.unwrap();
            status
                .routes
                .iter()
                .any(|route| route.route == "s" && route.delivered == count)
        };
        until("they are delivered", is_delivered).await;
    };
    let watch = async {
        delivered(1).await;
        let id = ours.id;
        let documents = [
            format!(
                r#"{{"specversion":"1.0","id":"{id}","source":"postroom","type":"shop.order.paid.v1","data":{{}}}}"#
            ),
            format!(
                r#"{{"specversion":"1.0","id":"{id}","source":"postroom","type":"shop.order.paid.v1","sequence":"5",
                "aggregatetype":"Order","aggregateid":"7","data":{{}}}}"#
            ),
            r#"{"specversion":"1.0","id":"A-1","source":"/till","type":"till.sold.v1","data":{}}"#.to_owned(),
            r#"{"specversion":"1.0","id":"A-1","source":"/till","type":"till.sold.v1","sequence":"9","data":{}}"#
                .to_owned(),
            format!(r#"{{"specversion":"1.0","id":"{id}","source":"/other","type":"shop.order.paid.v1","data":{{}}}}"#),
        ];
        for document in &documents {
            broker_suite::Site::put(&mut site, &topic, CLOUDEVENTS_JSON, document.as_bytes()).await;
        }
        delivered(6).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watch);
    ended.unwrap();
    assert_eq!(
        counter.0.load(Ordering::Relaxed),
        3,
        "the published event, that of the till, and that of another source"
    );
}
