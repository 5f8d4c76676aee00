//! A shop that is open: on one of the stores, straight from the outbox or through Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::replay::{self, Range, Replay};
use postroom::{Broker, Inspect, Message, Position, Prefixed, Start, inspect};
use postroom_kafka::{Kafka, Options, TopicSpec};
use postroom_testkit::Fresh;
use postroom_testkit::stage::Stage;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(30);
/// Who listens in the shop.
pub(crate) const GROUPS: [&str; 4] = ["commerce-likes", "commerce-sales", "commerce-views", "commerce-stock"];
/// Where the shop's events belong.
pub(crate) const TOPICS: [&str; 4] = ["order-events", "like-events", "product-events", "stock-events"];

/// An HTTP client. With TLS in the same build it wants somebody to have chosen who encrypts.
pub(crate) fn client() -> Client {
    drop(rustls::crypto::ring::default_provider().install_default()); // or it was chosen before
    Client::new()
}

/// Topics on Kafka that nobody else uses.
#[derive(Clone, Debug)]
pub(crate) struct OwnTopics {
    pub(crate) kafka: Kafka,
    pub(crate) prefix: String,
}

impl OwnTopics {
    /// The four topics and their dead letters, three partitions each, as `postroom topics apply` makes them.
    pub(crate) async fn create() -> Self {
        let url = std::env::var("POSTROOM_TEST_KAFKA_URL").unwrap_or_else(|_| {
            panic!(
                "POSTROOM_TEST_KAFKA_URL is not set: this test needs Kafka. Start the services and tell this shell about them \
                 with `eval \"$(cargo xtask services up)\"`"
            )
        });
        let kafka = Kafka::new(&Options::new(&url)).unwrap();
        let prefix = format!("shop-{}-", Uuid::now_v7());
        let spec = |name: String| TopicSpec {
            name: format!("{prefix}{name}"),
            partitions: 3,
            replication: 1,
            config: BTreeMap::new(),
        };
        let names = TOPICS
            .iter()
            .flat_map(|topic| [(*topic).to_owned(), format!("{topic}.DLT")]);
        let specs: Vec<TopicSpec> = names.map(spec).collect();
        kafka.apply(&specs).await.unwrap();
        Self { kafka, prefix }
    }

    pub(crate) fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(Prefixed::new(Arc::new(self.kafka.clone()), &self.prefix).unwrap())
    }

    /// So many messages of a topic, as somebody gets them who was not there before.
    pub(crate) async fn read(&self, topic: &str, count: usize) -> Vec<Message> {
        let (group, topics) = (format!("{}reader", self.prefix), [format!("{}{topic}", self.prefix)]);
        let mut reader = self.kafka.subscribe(&group, &topics, Start::Beginning).await.unwrap();
        let mut messages = Vec::new();
        while messages.len() < count {
            let next = timeout(PATIENCE, reader.next(100)).await;
            let next = next.unwrap_or_else(|_| panic!("only {} of {count} came through {topic}", messages.len()));
            messages.extend(next.unwrap());
        }
        messages
    }
}

/// An open shop.
pub(crate) struct Shop {
    pub(crate) fresh: Fresh,
    pub(crate) topics: Option<OwnTopics>,
    pub(crate) stage: Stage,
    client: Client,
}

impl Shop {
    pub(crate) async fn open(fresh: Fresh, topics: Option<OwnTopics>) -> Self {
        let stage = stage(fresh.store(), topics.as_ref()).await;
        Self {
            fresh,
            topics,
            stage,
            client: client(),
        }
    }

    /// The process is gone in the middle of whatever it did, and another one comes.
    pub(crate) async fn killed_and_reopened(self) -> Self {
        drop(self.stage);
        let fresh = self.fresh.restarted().await;
        Self::open(fresh, self.topics).await
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        call(&self.client, &self.stage.url, method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call(Method::GET, path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(Method::POST, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn product(&self, price: i64, stock: i64) -> i64 {
        let body = json!({ "name": "lamp", "price": price, "stock": stock });
        let product = self.post("/commerce/products", body).await;
        product["productId"].as_i64().unwrap()
    }

    pub(crate) async fn view(&self, product_id: i64, user_id: i64) {
        let path = format!("/commerce/products/{product_id}/views");
        self.post(&path, json!({ "userId": user_id })).await;
    }

    /// Likes it, or not any more.
    pub(crate) async fn like(&self, product_id: i64, user_id: i64, likes: bool) {
        let method = if likes { Method::PUT } else { Method::DELETE };
        let path = format!("/commerce/products/{product_id}/likes/{user_id}");
        let (status, answer) = self.call(method, &path, Value::Null).await;
        assert_eq!(status, 204, "{path}: {answer}");
    }

    /// Orders products; answers the order's number and what is due.
    pub(crate) async fn order(&self, user_id: i64, lines: &[(i64, i64)]) -> (i64, i64) {
        let line = |(product_id, quantity): &(i64, i64)| json!({ "productId": product_id, "quantity": quantity });
        let lines: Vec<Value> = lines.iter().map(line).collect();
        let order = self
            .post("/commerce/orders", json!({ "userId": user_id, "lines": lines }))
            .await;
        (order["orderId"].as_i64().unwrap(), order["amount"].as_i64().unwrap())
    }

    pub(crate) async fn pay(&self, order_id: i64, amount: i64) -> (u16, Value) {
        let path = format!("/commerce/orders/{order_id}/payment");
        self.call(Method::POST, &path, json!({ "amount": amount })).await
    }

    pub(crate) async fn buy(&self, user_id: i64, lines: &[(i64, i64)]) -> (u16, Value) {
        let (order_id, amount) = self.order(user_id, lines).await;
        self.pay(order_id, amount).await
    }

    /// Likes, sales and views.
    pub(crate) async fn metrics(&self, product_id: i64) -> [i64; 3] {
        let metrics = self.get(&format!("/commerce/products/{product_id}/metrics")).await;
        ["likes", "sales", "views"].map(|metric| metrics[metric].as_i64().unwrap())
    }

    /// Waits until likes, sales and views are these.
    pub(crate) async fn until_counted(&self, product_id: i64, expected: [i64; 3]) {
        let until = Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics(product_id).await;
            if metrics == expected {
                return;
            }
            assert!(
                Instant::now() < until,
                "product {product_id} has {metrics:?}, not {expected:?}"
            );
            sleep(LOOK).await;
        }
    }

    /// The types of all events so far, in order.
    pub(crate) async fn emitted(&self) -> Vec<String> {
        self.fresh.pulse().await.unwrap();
        let (mut types, mut position) = (Vec::new(), Position::START);
        loop {
            let page = self.fresh.read(position, 1000).await.unwrap();
            types.extend(page.entries.iter().map(|entry| entry.event.event_type.clone()));
            if page.next == position {
                return types;
            }
            position = page.next;
        }
    }

    /// Delivers everything once more to every group, and waits until they have had it.
    pub(crate) async fn deliver_again(&self) {
        self.until_quiet().await;
        for group in GROUPS {
            let replay = Replay {
                route: group.to_owned(),
                range: Range::default(),
                per_second: 10_000,
                again: false,
            };
            replay::start(&*self.fresh, &replay, "test").await.unwrap();
        }
        let until = Instant::now() + PATIENCE;
        while self.replays_running().await > 0 {
            assert!(Instant::now() < until, "a replay does not end");
            sleep(LOOK).await;
        }
        self.until_quiet().await;
    }

    /// Waits until nothing is on its way to a group straight from the outbox, and nothing is parked.
    async fn until_quiet(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.fresh.pulse().await.unwrap();
            let status = inspect::status(&*self.fresh).await.unwrap();
            let is_quiet = |route: &inspect::RouteStatus| route.backlog + route.retrying + route.waiting == 0;
            if status.routes.iter().all(is_quiet) {
                return;
            }
            assert!(
                Instant::now() < until,
                "the shop does not come to rest: {:?}",
                status.routes
            );
            sleep(LOOK).await;
        }
    }

    async fn replays_running(&self) -> i64 {
        use postroom::table::{self, Table};
        use sea_orm::ConnectionTrait;
        use sea_orm::sea_query::{Expr, ExprTrait, Query};
        let db = self.fresh.db();
        let mut select = Query::select();
        select
            .expr_as(Expr::col("replay_id").count(), "running")
            .from(table::named(db, Table::Replay))
            .and_where(Expr::col("state").eq("running"));
        db.query_one(&select)
            .await
            .unwrap()
            .unwrap()
            .try_get("", "running")
            .unwrap()
    }
}

/// The shop's module at work on this store.
pub(crate) async fn stage(store: Arc<dyn Inspect>, topics: Option<&OwnTopics>) -> Stage {
    let broker = topics.map(OwnTopics::broker);
    Stage::open(store, vec![commerce::module()], broker).await
}

pub(crate) async fn call(client: &Client, url: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let mut request = client.request(method, format!("{url}{path}"));
    if !body.is_null() {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let is_problem = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind == "application/problem+json");
    assert_eq!(is_problem, status >= 400, "{path}: {status}");
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}
