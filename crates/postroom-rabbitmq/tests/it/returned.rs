//! RabbitMQ counts redeliveries and removes a message at a limit. No message of a group may reach that limit.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use postroom::{Broker, Event, Filter, Join, Mode, Receipt, Relay, Start, Subscriber, Tx, operate};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh, server};
use tokio_util::sync::CancellationToken;

use crate::site::{Rabbit, deliver, entry, name, private, shared_with};

/// The default delivery limit of RabbitMQ 4.
const LIMIT: usize = 20;

fn arguments(limit: Option<i32>) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    if let Some(limit) = limit {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
    }
    arguments
}

async fn publish(site: &Rabbit, topic: &str, count: i64) {
    let entries: Vec<_> = (0..count).map(|n| entry(n, "a.b", "key")).collect();
    let receipts = deliver(&site.publisher(topic, Mode::Binary), &entries).await;
    assert!(receipts.iter().all(|receipt| *receipt == Receipt::Delivered));
}

/// Without the argument, RabbitMQ 4 removes the message, and RabbitMQ 3 refuses the second declaration.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_back_fifty_times_is_not_removed() {
    let site = shared_with(1);
    let topic = name("returned");
    let mut member = site.join("all", &topic).await;
    publish(&site, &topic, 3).await;
    for _ in 0..50 {
        let messages = member.next(10).await.unwrap();
        assert!(!messages.is_empty());
        member.nack(&[messages[0].mark.clone()]).await.unwrap();
    }
    let mut came = 0;
    while came < 3 {
        let messages = member.next(10).await.unwrap();
        came += messages.len();
    }
    let queue = format!("{topic}:all:0");
    let same = site.plain().await;
    let declared = same.queue_declare(
        queue.as_str().into(),
        QueueDeclareOptions::durable(),
        arguments(Some(i32::MAX)),
    );
    declared.await.expect("the queue says its limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_an_older_version_is_taken_as_it_is() {
    let site = shared_with(1);
    let topic = name("older");
    let queue = format!("{topic}:all:0");
    let channel = site.plain().await;
    let declared = channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), arguments(None));
    declared.await.unwrap();
    let mut member = site.join("all", &topic).await;
    publish(&site, &topic, 2).await;
    assert_eq!(member.next(1).await.unwrap().len(), 1);
    let risks = site.rabbit().risks("all", std::slice::from_ref(&topic)).await.unwrap();
    assert_eq!(risks.len(), 1, "{risks:?}");
    assert!(
        risks[0].says.contains(&queue) && risks[0].next.contains("set_policy"),
        "{risks:?}"
    );
    let ours = name("ours");
    drop(site.join("all", &ours).await);
    for topic in [ours, name("nowhere")] {
        let risks = site.rabbit().risks("all", &[topic]).await.unwrap();
        assert!(risks.is_empty(), "{risks:?}");
    }
}

/// A subscriber that counts handled events.
fn counting(handled: &Arc<AtomicUsize>) -> Subscriber {
    struct Counting(Arc<AtomicUsize>);
    impl postroom::Handler for Counting {
        async fn handle(&self, _tx: &mut Tx, _event: &Event) -> Result<(), postroom::BoxError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    Subscriber::matching("all", ["**"], Counting(Arc::clone(handled)))
}

/// Runs a relay with the subscriber until a condition holds.
async fn run<F: Future<Output = bool>>(
    fresh: &Fresh,
    (broker, topic): (Arc<dyn Broker>, &str),
    handled: &Arc<AtomicUsize>,
    condition: impl FnMut() -> F,
) {
    let route = counting(handled).fed_by(broker, vec![topic.to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route);
    let health = relay.health();
    let watch = async {
        until("the condition holds", condition).await;
        stop.cancel();
        drop(health);
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watch);
    ended.expect("the relay ends well");
}

/// On a server that removes a message after twenty redeliveries, as RabbitMQ 4 does for queues without their own limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_survives_fifty_restarts() {
    let mut site = private().await;
    let policy = format!("{{\"delivery-limit\":{LIMIT}}}");
    let limited = ["set_policy", "limit", ".*", policy.as_str(), "--apply-to", "queues"];
    site.server().control(&limited).await.unwrap();
    pause_and_restart(&site).await;
}

/// The same on the shared server, with its own limits.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_survives_fifty_restarts_on_any_server() {
    pause_and_restart(&shared_with(1)).await;
}

async fn pause_and_restart(site: &Rabbit) {
    let (fresh, handled) = (fresh::sqlite().await, Arc::new(AtomicUsize::new(0)));
    let topic = name("paused");
    let broker = || -> Arc<dyn Broker> { site.broker() };
    join_paused(site, &fresh, &topic, &handled).await;
    publish(site, &topic, 50).await;
    for _ in 0..50 {
        // Long enough for RabbitMQ to send messages to a member that requests some.
        let begun = tokio::time::Instant::now();
        let soon = || async { begun.elapsed() > Duration::from_millis(300) };
        run(&fresh, (broker(), &topic), &handled, soon).await;
    }
    assert_eq!(handled.load(Ordering::Relaxed), 0, "the group is paused");
    operate::set_paused(&*fresh, "all", false, "me").await.unwrap();
    let all = || async { handled.load(Ordering::Relaxed) == 50 };
    run(&fresh, (broker(), &topic), &handled, all).await;
}

/// Registers the group in the store and the broker, and pauses it.
async fn join_paused(site: &Rabbit, fresh: &Fresh, topic: &str, handled: &Arc<AtomicUsize>) {
    let joined = || async { operate::status(&**fresh).await.unwrap().routes.len() == 1 };
    run(fresh, (site.broker(), topic), handled, joined).await;
    operate::set_paused(&**fresh, "all", true, "me").await.unwrap();
    let member = site
        .broker()
        .subscribe(Join::new("all", &[topic.to_owned()], Start::Head))
        .await;
    drop(member.unwrap());
}

/// Length of the store's outage. `POSTROOM_TEST_AWAY_SECONDS` sets another one.
fn outage() -> Duration {
    let asked = std::env::var("POSTROOM_TEST_AWAY_SECONDS").ok();
    Duration::from_secs(asked.map_or(20, |seconds| seconds.parse().expect("seconds")))
}

/// The store is unavailable while one group is paused and another has messages in flight. When it is back and the groups
/// continue, every message is handled.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_costs_no_message() {
    let (site, mut server) = (shared_with(1), server::postgres(&[]).await);
    let fresh = fresh::postgres_on(&server.url()).await;
    let (topic, handled) = (name("away"), Arc::new(AtomicUsize::new(0)));
    join_paused(&site, &fresh, &topic, &handled).await;
    drop(site.join("works", &topic).await); // creates the queue, so that it receives the messages published next
    let works = Arc::new(AtomicUsize::new(0));
    let working = Subscriber {
        group: "works".to_owned(),
        joins_at: Start::Beginning,
        ..counting(&works)
    };
    let topics = vec![topic.clone()];
    let paused = counting(&handled).fed_by(site.broker(), topics.clone(), Filter::all());
    let working = working.fed_by(site.broker(), topics, Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(paused).route(working);
    let test = async {
        publish(&site, &topic, 1).await;
        until("the second group works", || async {
            works.load(Ordering::Relaxed) == 1
        })
        .await;
        server.stop().await.unwrap();
        publish(&site, &topic, 49).await;
        tokio::time::sleep(outage()).await;
        server.restart().await.unwrap();
        until("the store is back", || async {
            operate::set_paused(&*fresh, "all", false, "me").await.is_ok()
        })
        .await;
        until("everything is handled", || async {
            let status = operate::status(&*fresh).await;
            status.is_ok_and(|status| status.routes.iter().all(|route| route.delivered == 50))
        })
        .await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), test);
    ended.expect("the relay ends well");
}
