//! Failure scenarios of a pipeline from an outbox through Kafka to consumers, with a store on PostgreSQL. Each row of the table
//! is a test.
//!
//! | failure | expected behaviour | test |
//! |---|---|---|
//! | Kafka is unavailable for a while | events wait, and are published in order when it is back | `kafka_away_for_a_while_gets_everything_in_order` |
//! | one message cannot be published | it stays in the outbox and is retried | `a_message_that_cannot_be_published_is_retried_from_the_outbox` |
//! | it still fails at its maximum age | it becomes a dead letter, and the next messages are published | `a_message_that_fails_for_too_long_is_set_aside_and_the_next_go_on` |
//! | a message fails in a strict route | later messages wait until it succeeds or exceeds its maximum age | `what_follows_a_failed_message_waits_until_it_succeeds_or_is_too_old` |
//! | several instances run | one of them publishes, each message once | `of_two_instances_one_publishes_each_message_once` |
//! | a consumer fails on a message | three retries, one second apart, then the `.DLT` topic; other messages continue; it can be reprocessed | `a_consumer_that_fails_retries_three_times_then_the_message_is_in_the_dlt` |
//! | the deduplication check fails | as before, and the handler has no effect | `a_check_for_repetitions_that_fails_has_no_effect_and_ends_in_the_dlt` |

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{DomainEvent as _, Relay};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fresh;

use crate::pipeline::{LikeCreated, OrderPaid, Pipeline, ROUTE, retry};
use crate::sales::{Sales, sold, start_consumer};
use crate::site::{KafkaSite, headers};

const HOUR: Duration = Duration::from_secs(3600);

async fn pipeline() -> Pipeline {
    Pipeline::open(fresh::postgres().await, KafkaSite::shared()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_away_for_a_while_gets_everything_in_order() {
    let mut pipeline = Pipeline::open(fresh::postgres().await, KafkaSite::private().await).await;
    let spy = pipeline.start_strict_relay(retry(500, HOUR));
    pipeline.orders(1..=20).await;
    pipeline.until_arrived("order", &(1..=20).collect::<Vec<_>>()).await;
    pipeline.site.stop().await;
    pipeline.orders(21..=40).await;
    pipeline
        .until("two attempts have failed", async || spy.unavailable().len() >= 2)
        .await;
    pipeline.orders(41..=60).await;
    pipeline.site.start().await;
    let all: Vec<i64> = (1..=60).collect();
    pipeline
        .until("everything is confirmed", async || spy.confirmed() == all)
        .await;
    pipeline.stop().await;
    let mut arrived = pipeline.arrived("order").await;
    arrived.dedup(); // messages in flight at the stop may be there twice
    assert_eq!(arrived, all);
    assert!(pipeline.letters().await.is_empty(), "nothing was given up");
}

#[tokio::test]
async fn a_message_that_cannot_be_published_is_retried_from_the_outbox() {
    let mut pipeline = pipeline().await;
    pipeline.orders([1]).await;
    pipeline.emit(&LikeCreated { n: 2 }).await;
    pipeline.start_strict_relay(retry(500, HOUR));
    pipeline
        .until("it waits for a retry", async || pipeline.failed().await == (1, 0))
        .await;
    pipeline.stop().await; // the next relay reads it from the outbox
    let spy = pipeline.start_strict_relay(retry(500, HOUR));
    pipeline.create("like").await;
    pipeline.until_arrived("like", &[2]).await;
    pipeline.stop().await;
    assert_eq!(spy.confirmed(), [2], "and nothing else again");
    assert_eq!(pipeline.failed().await, (0, 0));
}

#[tokio::test]
async fn a_message_that_fails_for_too_long_is_set_aside_and_the_next_go_on() {
    let mut pipeline = pipeline().await;
    let spy = pipeline.start_strict_relay(retry(300, Duration::from_secs(2)));
    pipeline.orders([1]).await;
    let id = pipeline.emit(&LikeCreated { n: 2 }).await;
    pipeline.orders(3..=5).await;
    pipeline.until_arrived("order", &[1, 3, 4, 5]).await;
    assert_eq!(spy.confirmed(), [1, 3, 4, 5]);
    // The row has all data for an operator; it is not retried automatically.
    let sql = "select event_id::text as event_id, event_type, source, aggregate_type, aggregate_id, payload::text as payload, \
               error, dead_at::text as dead_at from postroom.outbox_failed";
    let row = pipeline.rows(sql).await.remove(0);
    let text = |column: &str| row.try_get::<String>("", column).unwrap();
    assert_eq!(text("event_id"), id.to_string());
    assert_eq!(
        (text("event_type"), text("aggregate_type")),
        (LikeCreated::TYPE.into(), "Product".into())
    );
    assert_eq!(
        (text("aggregate_id"), text("payload")),
        ("product-1".into(), r#"{"n": 2}"#.into())
    );
    assert!(text("error").contains(&pipeline.topic("like")) && !text("dead_at").is_empty());
    pipeline.create("like").await;
    pipeline.orders([6]).await;
    pipeline.until_arrived("order", &[1, 3, 4, 5, 6]).await;
    pipeline.stop().await;
    assert!(pipeline.arrived("like").await.is_empty());
}

#[tokio::test]
async fn what_follows_a_failed_message_waits_until_it_succeeds_or_is_too_old() {
    let mut pipeline = pipeline().await;
    let spy = pipeline.start_strict_relay(retry(300, Duration::from_secs(8)));
    pipeline.emit(&LikeCreated { n: 1 }).await;
    pipeline.orders(2..=3).await;
    pipeline
        .until("it waits for a retry", async || pipeline.failed().await == (1, 0))
        .await;
    assert!(
        spy.confirmed().is_empty(),
        "later messages wait, although their topic exists"
    );
    pipeline.create("like").await;
    pipeline.until_arrived("order", &[2, 3]).await;
    assert_eq!(spy.confirmed(), [1, 2, 3], "it succeeded first");
    pipeline.emit(&StockDepleted { n: 4 }).await;
    pipeline.orders([5]).await;
    pipeline
        .until("the next one waits", async || pipeline.failed().await == (1, 0))
        .await;
    assert_eq!(spy.confirmed(), [1, 2, 3]);
    pipeline.until_arrived("order", &[2, 3, 5]).await;
    pipeline.stop().await;
    assert_eq!(pipeline.failed().await, (0, 1), "it was too old first");
}

/// An event whose topic is never created.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct StockDepleted {
    n: i64,
}

impl postroom::DomainEvent for StockDepleted {
    const TYPE: &'static str = "loopers.stock.depleted.v1";
    const AGGREGATE_TYPE: &'static str = "Product";

    fn aggregate_id(&self) -> String {
        "product-2".to_owned()
    }
}

#[tokio::test]
async fn of_two_instances_one_publishes_each_message_once() {
    let mut pipeline = pipeline().await;
    let one = pipeline.start_strict_relay(retry(300, HOUR));
    let is_leased = async || pipeline.status(ROUTE).await.is_some_and(|status| status.is_leased);
    pipeline.until("the first one publishes", is_leased).await;
    let (two, other_store) = (pipeline.spy(), pipeline.fresh.second().await);
    let route = pipeline.strict_route(&two, retry(300, HOUR));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut other = tokio::task::JoinSet::new();
    let relay = Relay::new(other_store).lease_ttl(Duration::from_secs(3)).route(route);
    other.spawn(relay.run(stop.clone()));
    pipeline.orders(1..=300).await;
    let all: Vec<i64> = (1..=300).collect();
    pipeline.until_arrived("order", &all).await;
    assert_eq!(one.confirmed(), all);
    assert!(two.sizes().is_empty(), "the other one waits: {:?}", two.sizes());
    pipeline.stop().await;
    pipeline.orders(301..=310).await;
    let all: Vec<i64> = (1..=310).collect();
    pipeline.until_arrived("order", &all).await;
    assert_eq!(two.confirmed(), (301..=310).collect::<Vec<_>>(), "and takes over");
    stop.cancel();
    other.join_next().await.unwrap().unwrap().unwrap();
}

/// The only message of the dead-letter topic: its headers and its number.
async fn buried(pipeline: &Pipeline) -> (std::collections::BTreeMap<String, String>, i64) {
    let dlt = format!("{}.DLT", pipeline.topic("order"));
    pipeline
        .until("the letter is in the dead-letter topic", async || {
            !pipeline.site.read(&dlt, "read_committed").await.is_empty()
        })
        .await;
    let letters = pipeline.site.read(&dlt, "read_committed").await;
    assert_eq!(letters.len(), 1);
    (headers(&letters[0]), crate::publish::number(&letters[0]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_fails_retries_three_times_then_the_message_is_in_the_dlt() {
    let (mut pipeline, sales) = (pipeline().await, Sales::failing_on(3));
    let group = start_consumer(&mut pipeline, &sales).await;
    pipeline.orders(1..=6).await; // 3 and 6 are of one order
    pipeline
        .until("the others are counted", async || {
            sold(&pipeline).await == [1, 2, 4, 5, 6]
        })
        .await;
    let (headers, number) = buried(&pipeline).await;
    assert_eq!(number, 3);
    assert_eq!(headers["postroom-origin-topic"], pipeline.topic("order"));
    assert_eq!(headers["postroom-origin-place"], "partition 0, offset 2");
    assert_eq!(
        (&headers["postroom-group"], headers["postroom-attempts"].as_str()),
        (&group, "4")
    );
    assert!(headers["postroom-error"].contains("no shelf for 3"), "{headers:?}");
    assert_eq!(headers["ce_type"], OrderPaid::TYPE);
    // Immediate calls only find out which message of a batch has failed; they are no retries.
    let calls = sales.calls(3);
    let waits = calls.windows(2).map(|two| two[1] - two[0]);
    let retries = waits.filter(|wait| *wait >= Duration::from_millis(950)).count();
    assert_eq!(retries, 3, "three retries a second apart: {calls:?}");
    let is_acknowledged = async || pipeline.site.behind(&group, &pipeline.topic("order")).await == 0;
    pipeline
        .until("the group has acknowledged the topic", is_acknowledged)
        .await;
    // After the fix the letter is processed once more.
    sales.bad.lock().unwrap().clear();
    let retried = dead::retry(pipeline.store().db(), &Selection::default(), "me")
        .await
        .unwrap();
    assert_eq!(retried, 1);
    pipeline
        .until("it is counted", async || sold(&pipeline).await == [1, 2, 3, 4, 5, 6])
        .await;
    pipeline.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_for_repetitions_that_fails_has_no_effect_and_ends_in_the_dlt() {
    let (mut pipeline, sales) = (pipeline().await, Sales::default());
    let broken = "create function break_inbox() returns trigger language plpgsql as $$ begin
        if exists (select 1 from postroom.outbox where payload->>'n' = '2'
                   and new.idempotency_key like '%:' || event_id) then raise exception 'the inbox is broken'; end if;
        return new; end $$";
    pipeline.execute(broken).await;
    let on = "create trigger break_inbox before insert on postroom.event_handled for each row execute function break_inbox()";
    pipeline.execute(on).await;
    start_consumer(&mut pipeline, &sales).await;
    pipeline.orders(1..=3).await;
    pipeline
        .until("the others are counted", async || sold(&pipeline).await == [1, 3])
        .await;
    let (headers, number) = buried(&pipeline).await;
    assert_eq!((number, headers["postroom-attempts"].as_str()), (2, "4"));
    assert!(headers["postroom-error"].contains("the inbox is broken"), "{headers:?}");
    assert_eq!(sold(&pipeline).await, [1, 3], "no effect without its row in the inbox");
    // While the inbox table is missing, its lookup fails and the handler has no effect. When it is back, the event is counted once.
    pipeline
        .execute("alter table postroom.event_handled rename to mislaid")
        .await;
    pipeline.orders([4]).await;
    pipeline
        .until("it waits", async || {
            pipeline.rows("select 1 from postroom.outbox_parked").await.len() == 1
        })
        .await;
    assert_eq!(sold(&pipeline).await, [1, 3]);
    pipeline
        .execute("alter table postroom.mislaid rename to event_handled")
        .await;
    pipeline
        .until("it is counted", async || sold(&pipeline).await == [1, 3, 4])
        .await;
    pipeline.stop().await;
    assert_eq!(pipeline.letters().await.len(), 1);
}
