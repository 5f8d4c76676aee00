//! A test application with an outbox and a Kafka: it emits orders and likes, and relays publish them in strict order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::dead::{self, DeadLetter, Selection};
use postroom::operate::{self, RouteStatus};
use postroom::{
    Batch, Broker as _, Delays, Destination, DomainEvent, Filter, Inspect, Mode, Ordering, Receipt, Relay, Result,
    Retry, Route, To, Topic, table,
};
use postroom_testkit::Fresh;
use postroom_testkit::broker_suite::Site as _;
use sea_orm::{ConnectionTrait as _, QueryResult, Statement};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::publish::number;
use crate::site::KafkaSite;

/// Timeout of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The name of the publishing route.
pub(crate) const ROUTE: &str = "strict";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderPaid {
    pub(crate) n: i64,
}

impl DomainEvent for OrderPaid {
    const TYPE: &'static str = "loopers.order.paid.v1";
    const AGGREGATE_TYPE: &'static str = "Order";

    fn aggregate_id(&self) -> String {
        format!("order-{}", self.n % 3)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LikeCreated {
    pub(crate) n: i64,
}

impl DomainEvent for LikeCreated {
    const TYPE: &'static str = "loopers.like.created.v1";
    const AGGREGATE_TYPE: &'static str = "Product";

    fn aggregate_id(&self) -> String {
        "product-1".to_owned()
    }
}

/// Records every delivered batch: the numbers of its events with their receipts, in order.
#[derive(Debug)]
pub(crate) struct Spy {
    inner: Arc<dyn Destination>,
    batches: Mutex<Vec<Vec<(i64, Receipt)>>>,
}

impl Spy {
    /// Number of entries in each batch.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.batches.lock().unwrap().iter().map(Vec::len).collect()
    }

    /// Numbers of the delivered events, in order.
    pub(crate) fn confirmed(&self) -> Vec<i64> {
        self.of(|receipt| *receipt == Receipt::Delivered)
    }

    /// Numbers of the events that failed because Kafka was unavailable.
    pub(crate) fn unavailable(&self) -> Vec<i64> {
        self.of(|receipt| matches!(receipt, Receipt::Unavailable { .. }))
    }

    fn of(&self, is_it: impl Fn(&Receipt) -> bool) -> Vec<i64> {
        let batches = self.batches.lock().unwrap();
        let all = batches.iter().flatten();
        all.filter(|(_, receipt)| is_it(receipt)).map(|(n, _)| *n).collect()
    }
}

#[async_trait]
impl Destination for Spy {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let receipts = self.inner.deliver(batch).await;
        let numbers = batch.entries.iter().map(|entry| {
            let payload: serde_json::Value = entry.event.decode().unwrap();
            payload["n"].as_i64().unwrap()
        });
        let answered = numbers.zip(receipts.iter().cloned()).collect();
        self.batches.lock().unwrap().push(answered);
        receipts
    }
}

/// Relays with a store and a Kafka.
pub(crate) struct Pipeline {
    pub(crate) fresh: Fresh,
    pub(crate) site: KafkaSite,
    pub(crate) prefix: String,
    pub(crate) relays: JoinSet<Result<()>>,
    stop: CancellationToken,
}

impl Pipeline {
    /// Creates the topic of orders, with one partition. The topic of likes does not exist.
    pub(crate) async fn open(fresh: Fresh, mut site: KafkaSite) -> Self {
        let prefix = format!("pipeline-{}-", Uuid::now_v7());
        site.create(&format!("{prefix}order-events"), 1).await;
        Self {
            fresh,
            site,
            prefix,
            relays: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn topic(&self, domain: &str) -> String {
        format!("{}{domain}-events", self.prefix)
    }

    /// Creates the topic of a domain and its dead-letter topic.
    pub(crate) async fn create(&mut self, domain: &str) {
        let topic = self.topic(domain);
        self.site.create(&topic, 1).await;
    }

    /// A publisher that records its deliveries.
    pub(crate) fn spy(&self) -> Arc<Spy> {
        let topic: Topic = format!("{}{{domain}}-events", self.prefix).parse().unwrap();
        Arc::new(Spy {
            inner: self.site.kafka.publisher(topic, Mode::Binary),
            batches: Mutex::default(),
        })
    }

    /// A route that publishes all events in strict order.
    pub(crate) fn strict_route(&self, spy: &Arc<Spy>, retry: Retry) -> Route {
        Route {
            filter: Filter::any_of(["loopers.**"]),
            ordering: Ordering::Strict,
            retry,
            batch: 100,
            ..Route::new(ROUTE, To::Destination(Arc::<Spy>::clone(spy)))
        }
    }

    pub(crate) fn relay(&self) -> Relay {
        Relay::new(self.fresh.store()).lease_ttl(Duration::from_secs(3))
    }

    pub(crate) fn start(&mut self, relay: Relay) {
        self.relays.spawn(relay.run(self.stop.child_token()));
    }

    /// Starts a relay with one strict route, and returns the record of its deliveries.
    pub(crate) fn start_strict_relay(&mut self, retry: Retry) -> Arc<Spy> {
        let spy = self.spy();
        let route = self.strict_route(&spy, retry);
        self.start(self.relay().route(route));
        spy
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.relays.join_next().await {
            ended.unwrap().unwrap();
        }
        self.stop = CancellationToken::new();
    }

    pub(crate) async fn emit<E: DomainEvent + Serialize>(&self, event: &E) -> Uuid {
        let tx = table::begin(self.fresh.db()).await.unwrap();
        let id = postroom::emit(&tx, event).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    pub(crate) async fn orders(&self, numbers: impl IntoIterator<Item = i64>) {
        for n in numbers {
            self.emit(&OrderPaid { n }).await;
        }
    }

    /// Numbers of the messages in the topic of a domain, in order.
    pub(crate) async fn arrived(&self, domain: &str) -> Vec<i64> {
        let messages = self.site.read(&self.topic(domain), "read_committed").await;
        messages.iter().map(number).collect()
    }

    pub(crate) async fn until_arrived(&self, domain: &str, numbers: &[i64]) {
        self.until(&format!("{domain} has {numbers:?}"), async || {
            self.arrived(domain).await == numbers
        })
        .await;
    }

    /// The status of a route.
    pub(crate) async fn status(&self, route: &str) -> Option<RouteStatus> {
        let status = operate::status(&*self.fresh.store()).await.unwrap();
        status.routes.into_iter().find(|row| row.route == route)
    }

    /// Number of events that wait for a retry, and number of dead letters.
    pub(crate) async fn failed(&self) -> (u64, u64) {
        let status = self.status(ROUTE).await;
        status.map_or((0, 0), |status| (status.retrying, status.dead))
    }

    pub(crate) async fn letters(&self) -> Vec<DeadLetter> {
        dead::list(self.fresh.db(), &Selection::default(), None, 100)
            .await
            .unwrap()
    }

    /// Rows of a query.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let db = self.fresh.db();
        let statement = Statement::from_string(db.get_database_backend(), sql);
        db.query_all_raw(statement).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.fresh.db().execute_unprepared(sql).await.unwrap();
    }

    pub(crate) async fn until(&self, what: &str, is_true: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_true().await {
            if begun.elapsed() > PATIENCE {
                let status = operate::status(&*self.fresh.store()).await;
                panic!("waited {PATIENCE:?} until {what}; {status:#?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Inspect> {
        self.fresh.store()
    }
}

/// A policy with a fixed delay and a maximum age.
pub(crate) fn retry(delay_ms: u64, age_max: Duration) -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_millis(delay_ms)),
        attempts_max: None,
        age_max: Some(age_max),
    }
}
