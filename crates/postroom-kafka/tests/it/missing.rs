//! A topic that does not exist when the relay starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::{
    BoxError, Broker, DomainEvent, Event, Filter, Handler, Mode, Namespaced, Relay, Result, Route, Subscriber, To,
    Topic, Tx, operate, table,
};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::pipeline::{LikeCreated, OrderPaid};
use crate::site::KafkaSite;

/// Counts handled events.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicUsize>);

impl Handler for Counter {
    async fn handle(&self, _tx: &mut Tx, _event: &Event) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Counter {
    fn has(&self, count: usize) -> bool {
        self.0.load(Ordering::Relaxed) == count
    }
}

async fn emit(fresh: &Fresh, event: &impl DomainEvent) {
    let tx = table::begin(fresh.db()).await.unwrap();
    postroom::emit(&tx, event).await.unwrap();
    tx.commit().await.unwrap();
}

/// Two groups on two topics, and one route that publishes to both topics.
fn relay(fresh: &Fresh, broker: &Arc<dyn Broker>, orders: &Counter, likes: &Counter) -> Relay {
    let group = |name: &str, pattern: &str, topic: &str, counter: &Counter| {
        let subscriber = Subscriber::matching(name, [pattern], counter.clone());
        subscriber.fed_by(Arc::clone(broker), vec![topic.to_owned()], Filter::all())
    };
    let publish = Route {
        awaits: vec!["orders".to_owned(), "likes".to_owned()],
        ..Route::new(
            "publish",
            To::Destination(broker.publisher(Topic::default(), Mode::Binary)),
        )
    };
    Relay::new(fresh.store())
        .route(group("orders", "loopers.order.**", "order-events", orders))
        .route(group("likes", "loopers.like.**", "like-events", likes))
        .route(publish)
}

/// The group of the missing topic cannot join and reads its events from the log. The other group receives its events from
/// Kafka. The status names the missing topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_at_the_start_holds_up_nobody() {
    let (mut site, fresh) = (KafkaSite::shared(), fresh::sqlite().await);
    let prefix = format!("missing-{}-", Uuid::now_v7());
    site.create(&format!("{prefix}order-events"), 1).await;
    let broker: Arc<dyn Broker> = Arc::new(Namespaced::new(site.broker(), prefix.clone()).unwrap());
    let (orders, likes) = (Counter::default(), Counter::default());
    for n in 0..3 {
        emit(&fresh, &OrderPaid { n }).await;
        emit(&fresh, &LikeCreated { n }).await;
    }
    let stop = CancellationToken::new();
    let watch = async {
        until("the other group has its events", || async { orders.has(3) }).await;
        until("the group reads the log", || async { likes.has(3) }).await;
        let is_named = || async {
            let reasons = operate::why(&*fresh).await.unwrap();
            reasons
                .iter()
                .any(|reason| format!("{reason:?}").contains("like-events"))
        };
        until("the missing topic is named", is_named).await;
        site.create(&format!("{prefix}like-events"), 1).await;
        emit(&fresh, &OrderPaid { n: 3 }).await;
        emit(&fresh, &LikeCreated { n: 3 }).await;
        until("both go on", || async { orders.has(4) && likes.has(4) }).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay(&fresh, &broker, &orders, &likes).run(stop.clone()), watch);
    ended.unwrap();
}
