//! A running shop: on one of the stores, directly from the outbox or through Kafka.

use std::any::Any;
use std::sync::Arc;

use postroom::replay::{self, Range, Replay};
use postroom::{Broker, Position, operate};
use postroom_host::Module;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::stage::{Running, Scenery, Stage};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh};
use serde_json::{Value, json};

/// The subscriber groups of the shop.
pub(crate) const GROUPS: [&str; 4] = ["commerce-likes", "commerce-sales", "commerce-views", "commerce-stock"];
/// The topics of the shop's events.
pub(crate) const TOPICS: [&str; 4] = ["order-events", "like-events", "product-events", "stock-events"];

/// A running shop.
pub(crate) struct Shop {
    pub(crate) fresh: Fresh,
    pub(crate) topics: Option<OwnTopics>,
    pub(crate) client: Client,
    /// Dropping it stops the shop.
    stage: Box<dyn Any + Send>,
}

impl Shop {
    /// A shop that runs like a separate process.
    pub(crate) async fn open(fresh: Fresh, topics: Option<OwnTopics>) -> Self {
        Self::with(fresh, topics, commerce::module()).await
    }

    async fn with(fresh: Fresh, topics: Option<OwnTopics>, module: Module) -> Self {
        let running = run(&fresh, topics.as_ref(), module).await;
        Self::in_process(fresh, topics, running)
    }

    /// A shop that publishes to these topics through the given broker, which may inject faults.
    pub(crate) async fn through(fresh: Fresh, topics: OwnTopics, broker: Arc<dyn Broker>) -> Self {
        let scenery = Scenery {
            broker: Some(broker),
            ..Scenery::default()
        };
        let running = Running::open(&fresh, vec![commerce::module()], scenery).await;
        Self::in_process(fresh, Some(topics), running)
    }

    fn in_process(fresh: Fresh, topics: Option<OwnTopics>, running: Running) -> Self {
        Self {
            fresh,
            topics,
            client: running.client.clone(),
            stage: Box::new(running),
        }
    }

    /// A shop on the thread of the test.
    pub(crate) async fn here(fresh: Fresh, topics: Option<OwnTopics>) -> Self {
        let broker = topics.as_ref().map(OwnTopics::broker);
        let stage = Stage::open(fresh.store(), vec![commerce::module()], broker).await;
        Self {
            fresh,
            topics,
            client: Client(stage.url.clone()),
            stage: Box::new(stage),
        }
    }

    /// Kills the process at any point and starts another one with this module.
    pub(crate) async fn killed_and_reopened(self, module: Module) -> Self {
        drop(self.stage);
        Self::with(self.fresh, self.topics, module).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        call(&self.client, method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call("POST", path, body).await;
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

    /// Adds or removes a like.
    pub(crate) async fn like(&self, product_id: i64, user_id: i64, likes: bool) {
        let method = if likes { "PUT" } else { "DELETE" };
        let path = format!("/commerce/products/{product_id}/likes/{user_id}");
        let (status, answer) = self.call(method, &path, Value::Null).await;
        assert_eq!(status, 204, "{path}: {answer}");
    }

    /// Orders products. Returns the order number and the amount due.
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
        self.call("POST", &path, json!({ "amount": amount })).await
    }

    pub(crate) async fn buy(&self, user_id: i64, lines: &[(i64, i64)]) -> (u16, Value) {
        let (order_id, amount) = self.order(user_id, lines).await;
        self.pay(order_id, amount).await
    }

    /// Likes, sales and views of a product.
    pub(crate) async fn metrics(&self, product_id: i64) -> [i64; 3] {
        let metrics = self.get(&format!("/commerce/products/{product_id}/metrics")).await;
        ["likes", "sales", "views"].map(|metric| metrics[metric].as_i64().unwrap())
    }

    /// Waits until likes, sales and views have these values.
    pub(crate) async fn until_counted(&self, product_id: i64, expected: [i64; 3]) {
        until(&format!("product {product_id} has {expected:?}"), || async {
            self.metrics(product_id).await == expected
        })
        .await;
    }

    /// The types of all events so far, in order.
    pub(crate) async fn emitted(&self) -> Vec<String> {
        self.fresh.catch_up().await;
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

    /// Replays all events to every group and waits for the end of the replays.
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
        until("the replays end", || async { self.replays_running().await == 0 }).await;
        self.until_quiet().await;
    }

    /// Waits until every group has received all entries of the outbox, and no entry is parked.
    async fn until_quiet(&self) {
        until("all events are delivered", || async {
            self.fresh.catch_up().await;
            let status = operate::status(&*self.fresh).await.unwrap();
            let is_quiet = |route: &operate::RouteStatus| route.backlog + route.retrying + route.waiting == 0;
            status.routes.iter().all(is_quiet)
        })
        .await;
    }

    /// Pauses the route to a group.
    pub(crate) async fn pause(&self, group: &str) {
        let is_paused = || async { operate::set_paused(&*self.fresh, group, true, "test").await.is_ok() };
        until("the route exists", is_paused).await;
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

/// Runs the shop's module on this store.
pub(crate) async fn run(fresh: &Fresh, topics: Option<&OwnTopics>, module: Module) -> Running {
    let scenery = Scenery {
        broker: topics.map(OwnTopics::broker),
        ..Scenery::default()
    };
    Running::open(fresh, vec![module], scenery).await
}

pub(crate) async fn call(client: &Client, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let answer = client.must(method, path, &[], &body).await;
    let is_problem = answer.kind == "application/problem+json";
    assert_eq!(is_problem, answer.status >= 400, "{path}: {answer:?}");
    (answer.status, answer.body)
}
