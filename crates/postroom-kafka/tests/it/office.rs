//! An application with an outbox and a Kafka: it emits orders and likes, and relays publish them in one line.

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

/// Nothing that must happen takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The name of the route that publishes.
pub(crate) const ROUTE: &str = "line";

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

/// What a route delivered, in order, and how: every batch with its numbers and receipts.
#[derive(Debug)]
pub(crate) struct Spy {
    inner: Arc<dyn Destination>,
    batches: Mutex<Vec<Vec<(i64, Receipt)>>>,
}

impl Spy {
    /// How many entries each batch had.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.batches.lock().unwrap().iter().map(Vec::len).collect()
    }

    /// What was confirmed, in sequence.
    pub(crate) fn confirmed(&self) -> Vec<i64> {
        self.of(|receipt| *receipt == Receipt::Delivered)
    }

    /// What Kafka as a whole did not take.
    pub(crate) fn unavailable(&self) -> Vec<i64> {
        self.of(|receipt| matches!(receipt, Receipt::Unavailable(_)))
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

/// Relays that work on a store and a Kafka.
pub(crate) struct Office {
    pub(crate) fresh: Fresh,
    pub(crate) site: KafkaSite,
    pub(crate) prefix: String,
    pub(crate) relays: JoinSet<Result<()>>,
    stop: CancellationToken,
}

impl Office {
    /// With a topic for orders, of one partition, and none for likes.
    pub(crate) async fn open(fresh: Fresh, mut site: KafkaSite) -> Self {
        let prefix = format!("office-{}-", Uuid::now_v7());
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

    /// Makes the topic of a domain, and the one of its dead letters.
    pub(crate) async fn create(&mut self, domain: &str) {
        let topic = self.topic(domain);
        self.site.create(&topic, 1).await;
    }

    /// Where a route publishes, seen by the test.
    pub(crate) fn spy(&self) -> Arc<Spy> {
        let topic: Topic = format!("{}{{domain}}-events", self.prefix).parse().unwrap();
        Arc::new(Spy {
            inner: self.site.kafka.publisher(topic, Mode::Binary),
            batches: Mutex::default(),
        })
    }

    /// The route that publishes everything in one line.
    pub(crate) fn line(&self, spy: &Arc<Spy>, retry: Retry) -> Route {
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

    /// Starts a relay with one line; answers what it sends.
    pub(crate) fn start_line(&mut self, retry: Retry) -> Arc<Spy> {
        let spy = self.spy();
        let route = self.line(&spy, retry);
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

    /// What lies in the topic of a domain, in order.
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

    /// How a route stands.
    pub(crate) async fn status(&self, route: &str) -> Option<RouteStatus> {
        let status = operate::status(&*self.fresh.store()).await.unwrap();
        status.routes.into_iter().find(|row| row.route == route)
    }

    /// So many wait for a retry, and so many were given up.
    pub(crate) async fn failed(&self) -> (u64, u64) {
        let status = self.status(ROUTE).await;
        status.map_or((0, 0), |line| (line.retrying, line.dead))
    }

    pub(crate) async fn letters(&self) -> Vec<DeadLetter> {
        dead::list(self.fresh.db(), &Selection::default(), None, 100)
            .await
            .unwrap()
    }

    /// Rows of a query of ours.
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

/// Tried again after this long, until it is older than that.
pub(crate) fn retry(delay_ms: u64, age_max: Duration) -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_millis(delay_ms)),
        attempts_max: None,
        age_max: Some(age_max),
    }
}
