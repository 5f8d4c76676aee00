//! Queues of a module that are routed by the type of events: their names, their bindings, and the copies of dead letters.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use postroom::dead::{self, Selection};
use postroom::{
    BoxError, Broker, CancellationToken, Delays, Event, Filter, Handler, Join, Namespaced, Receipt, Relay, Result,
    Retry, Route, Start, Subscriber, To, Tx, parse_payload, table,
};
use postroom_rabbitmq::RabbitMq;
use postroom_testkit::broker_suite::form;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, QueryResult, Statement};

use crate::site::{self, Rabbit, deliver, entry, name};

const EXCHANGE: &str = "domain_events";
const POSTED: &str = "community.post.liked.v1";
const COMMENTED: &str = "community.comment.created.v1";
const SENT: &str = "community.chat.sent.v1";
/// The key of events that only look whether a queue takes them.
const PROBE: &str = "probe";

/// Each group with the event types that it listens to.
const GROUPS: [(&str, &[&str]); 4] = [
    ("notification", &[POSTED, COMMENTED]),
    ("aggregate", &["community.comment.**"]),
    ("chat_persist", &[SENT]),
    ("chat_fanout", &["community.chat.*.v1"]),
];

fn by_type(site: &Rabbit) -> RabbitMq {
    let rabbitmq = RabbitMq::new(site.url()).unwrap();
    rabbitmq.by_type("{group}_queue", "{group}_dlq").unwrap()
}

/// The same on a shared server, with names of the test's own.
fn shared() -> (Rabbit, Arc<dyn Broker>, String) {
    let site = site::shared_with(1);
    let prefix = format!("{}-", name("by-type"));
    let broker = Namespaced::new(Arc::new(by_type(&site)), prefix.as_str()).unwrap();
    (site, Arc::new(broker), prefix)
}

/// Number of messages in a queue; `None` if it does not exist.
async fn depth(site: &Rabbit, queue: &str) -> Option<u32> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let channel = site.plain().await;
    let queue = channel
        .queue_declare(queue.into(), passive, FieldTable::default())
        .await;
    Some(queue.ok()?.message_count())
}

async fn until_depth(site: &Rabbit, queue: &str, count: u32) {
    until(&format!("{queue} has {count} messages"), || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        depth(site, queue).await == Some(count)
    })
    .await;
}

/// N-01: the exchange and the queues have exactly the names of the specification, and a queue gets only what its group listens to.
#[tokio::test(flavor = "multi_thread")]
async fn n_01_each_queue_gets_only_the_types_that_its_group_listens_to() {
    let site = site::private().await;
    let (rabbitmq, topics) = (by_type(&site), [EXCHANGE.to_owned()]);
    for (group, patterns) in GROUPS {
        let wants = Filter::any_of(patterns.iter().copied());
        let join = Join {
            wants: &wants,
            ..Join::new(group, &topics, Start::Head)
        };
        drop(rabbitmq.subscribe(join).await.unwrap());
    }
    let publisher = rabbitmq.publisher(EXCHANGE.parse().unwrap(), form().mode());
    let entries: Vec<_> = (1..)
        .zip([POSTED, COMMENTED, SENT, SENT])
        .map(|(id, event_type)| entry(id, event_type, "1"))
        .collect();
    let receipts = deliver(&publisher, &entries).await;
    assert!(
        receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
        "{receipts:?}"
    );
    let mut found = Vec::new();
    for queue in [
        "notification_queue",
        "aggregate_queue",
        "chat_persist_queue",
        "chat_fanout_queue",
    ] {
        found.push(depth(&site, queue).await);
        let dead = queue.replace("_queue", "_dlq");
        assert_eq!(depth(&site, &dead).await, Some(0), "{dead} is there");
    }
    assert_eq!(found, [2, 1, 2, 2].map(Some));
    let unwanted = deliver(&publisher, &[entry(9, "community.vote.opened.v1", "1")]).await;
    let says = format!("{unwanted:?}");
    assert!(says.contains("domain_events for community.vote.opened.v1"), "{says}");
}

#[tokio::test]
async fn a_group_that_is_routed_by_type_has_one_partition() {
    let rabbitmq = RabbitMq::new(site::shared_with(1).url())
        .unwrap()
        .partitions(3)
        .unwrap();
    let refused = rabbitmq.by_type("{group}_queue", "{group}_dlq");
    let says = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        says.contains("3 partitions") && says.contains("set partitions to 1"),
        "{says}"
    );
}

/// Handles events as rows; fails as long as it is told to.
#[derive(Clone, Debug)]
struct Store {
    is_broken: Arc<AtomicBool>,
}

impl Store {
    async fn open(fresh: &Fresh) -> Self {
        let tx = table::begin(fresh.db()).await.unwrap();
        let sql = "create table stored (event_type varchar(100) not null, event_key varchar(100) not null)";
        tx.execute_unprepared(sql).await.unwrap();
        tx.commit().await.unwrap();
        Self {
            is_broken: Arc::default(),
        }
    }

    async fn rows(&self, fresh: &Fresh) -> Vec<String> {
        let sql = "select event_type, event_key from stored order by event_key";
        let rows = fresh
            .db()
            .query_all_raw(Statement::from_string(fresh.db().get_database_backend(), sql))
            .await;
        let text = |row: &QueryResult| {
            let get = |column: &str| row.try_get::<String>("", column).unwrap();
            format!("{} {}", get("event_key"), get("event_type"))
        };
        let rows = rows.unwrap();
        rows.iter().map(text).filter(|row| !row.starts_with(PROBE)).collect()
    }
}

impl Handler for Store {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err("the table of notifications is locked".into());
        }
        let (kind, key) = (&event.event_type, &event.aggregate_id);
        tx.execute_unprepared(&format!("insert into stored values ('{kind}', '{key}')"))
            .await?;
        Ok(())
    }
}

async fn emit(fresh: &Fresh, event_type: &str, keys: impl IntoIterator<Item = i64>) {
    let tx = table::begin(fresh.db()).await.unwrap();
    for key in keys {
        let event = Event::new(event_type, "post", key.to_string(), parse_payload("{}").unwrap()).unwrap();
        postroom::append(&tx, &[event]).await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// A relay that publishes what its group listens to, in a form of its own, and is fed by the queue of the group.
async fn relay(fresh: &Fresh, broker: &Arc<dyn Broker>, types: &[&str], published: &[&str], handler: &Store) -> Relay {
    let retry = Retry {
        delays: Delays::Fixed(Duration::from_millis(20)),
        attempts_max: Some(2),
        age_max: None,
    };
    let subscriber = Subscriber::matching("notification", types.iter().copied(), handler.clone());
    let subscriber = subscriber.retry(retry).form(&form());
    let brings = Filter::any_of(published.iter().copied());
    let publish = Route {
        filter: brings.clone(),
        awaits: vec!["notification".to_owned()],
        ..Route::new(
            "publish",
            To::Destination(broker.publisher(EXCHANGE.parse().unwrap(), form().mode())),
        )
    };
    let fed = subscriber.fed_by(Arc::clone(broker), vec![EXCHANGE.to_owned()], brings);
    Relay::new(fresh.second().await)
        .lease_ttl(Duration::from_secs(2))
        .route(publish)
        .route(fed)
}

/// A relay at work.
#[derive(Debug)]
struct Running {
    stop: CancellationToken,
    relay: tokio::task::JoinSet<Result<()>>,
}

impl Running {
    fn of(relay: Relay) -> Self {
        let (stop, mut running) = (CancellationToken::new(), tokio::task::JoinSet::new());
        running.spawn(relay.run(stop.clone()));
        Self { stop, relay: running }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        self.relay.join_next().await.unwrap().unwrap().unwrap();
    }
}

/// N-11: storing fails, and the queue of dead letters has a copy of each. An operator's decision, by a process without a broker,
/// empties it.
#[tokio::test(flavor = "multi_thread")]
async fn n_11_the_dead_letter_queue_is_empty_after_a_retry_or_a_discard() {
    let (fresh, (site, broker, prefix)) = (fresh::sqlite().await, shared());
    let (handler, queue) = (Store::open(&fresh).await, format!("{prefix}notification_dlq"));
    let running = Running::of(relay(&fresh, &broker, &[POSTED], &[POSTED], &handler).await);
    handler.is_broken.store(true, Ordering::Relaxed);
    emit(&fresh, POSTED, 0..25).await;
    until_depth(&site, &queue, 25).await;
    handler.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(dead::retry(fresh.db(), &Selection::default(), "me").await.unwrap(), 25);
    until("all are stored", || async { handler.rows(&fresh).await.len() == 25 }).await;
    until_depth(&site, &queue, 0).await;
    handler.is_broken.store(true, Ordering::Relaxed);
    emit(&fresh, POSTED, 100..107).await;
    until_depth(&site, &queue, 7).await;
    let discarded = dead::discard(fresh.db(), &Selection::default(), "me", "no use").await;
    assert_eq!(discarded.unwrap(), 7);
    until_depth(&site, &queue, 0).await;
    assert_eq!(handler.rows(&fresh).await.len(), 25);
    running.stop().await;
}

/// Whether a message of this type would be stored in a queue.
async fn is_bound(broker: &Arc<dyn Broker>, event_type: &str) -> bool {
    let publisher = broker.publisher(EXCHANGE.parse().unwrap(), form().mode());
    deliver(&publisher, &[entry(99, event_type, PROBE)]).await == [Receipt::Delivered]
}

/// A filter that grows gets its new types from the moment it is fed by them; one that shrinks gets nothing more of the old ones;
/// nothing is lost in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_filter_changes_the_bindings_and_loses_nothing() {
    let (fresh, (_site, broker, _)) = (fresh::sqlite().await, shared());
    let handler = Store::open(&fresh).await;
    let all = [POSTED, COMMENTED, SENT];
    emit(&fresh, POSTED, [1]).await;
    let running = Running::of(relay(&fresh, &broker, &[POSTED, SENT], &[POSTED, SENT], &handler).await);
    until("the first is stored", || async {
        handler.rows(&fresh).await.len() == 1
    })
    .await;
    emit(&fresh, POSTED, [2]).await;
    emit(&fresh, SENT, [3]).await;
    until("both are stored", || async { handler.rows(&fresh).await.len() == 3 }).await;
    assert!(is_bound(&broker, SENT).await);
    running.stop().await;
    emit(&fresh, COMMENTED, [4]).await;
    emit(&fresh, POSTED, [5]).await;
    let running = Running::of(relay(&fresh, &broker, &[POSTED, COMMENTED], &all, &handler).await);
    emit(&fresh, COMMENTED, [6]).await;
    until("the old binding is gone", || async { !is_bound(&broker, SENT).await }).await;
    emit(&fresh, COMMENTED, [7]).await;
    emit(&fresh, POSTED, [8]).await;
    until("all are stored", || async { handler.rows(&fresh).await.len() == 8 }).await;
    running.stop().await;
    let expected = [
        format!("1 {POSTED}"),
        format!("2 {POSTED}"),
        format!("3 {SENT}"),
        format!("4 {COMMENTED}"),
        format!("5 {POSTED}"),
        format!("6 {COMMENTED}"),
        format!("7 {COMMENTED}"),
        format!("8 {POSTED}"),
    ];
    assert_eq!(handler.rows(&fresh).await, expected);
}

/// Another process may have removed bindings while it was fed: whoever takes the route back from it binds again, before it relies on
/// the broker.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_takes_a_route_back_binds_again() {
    let (fresh, (site, broker, prefix)) = (fresh::sqlite().await, shared());
    let handler = Store::open(&fresh).await;
    let narrow = Running::of(relay(&fresh, &broker, &[POSTED], &[POSTED], &handler).await);
    emit(&fresh, POSTED, [1]).await;
    until("the narrow one is fed", || async {
        handler.rows(&fresh).await.len() == 1
    })
    .await;
    let wide = Running::of(relay(&fresh, &broker, &[POSTED, SENT], &[POSTED, SENT], &handler).await);
    until("the wide one has joined", || async { is_bound(&broker, SENT).await }).await;
    let channel = site.plain().await;
    let (queue, exchange) = (format!("{prefix}notification_queue"), format!("{prefix}{EXCHANGE}"));
    let unbinding = channel.queue_unbind(
        queue.as_str().into(),
        exchange.as_str().into(),
        SENT.into(),
        FieldTable::default(),
    );
    unbinding.await.unwrap();
    assert!(!is_bound(&broker, SENT).await);
    narrow.stop().await;
    until("it is bound again", || async { is_bound(&broker, SENT).await }).await;
    emit(&fresh, SENT, [2]).await;
    until("what came later is stored", || async {
        handler.rows(&fresh).await.contains(&format!("2 {SENT}"))
    })
    .await;
    wide.stop().await;
}
