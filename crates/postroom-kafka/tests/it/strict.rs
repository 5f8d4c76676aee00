//! The ordered relay on a real Kafka, one test per branch. In a route with `ordering = "strict"` no message overtakes a failed
//! one, until that one succeeds or exceeds its maximum age.
//!
//! | branch | test |
//! |---|---|
//! | no message: the round ends | `without_messages_nothing_is_sent` |
//! | no cursor: start with the first message; otherwise continue at the cursor | `it_begins_with_the_first_message_and_goes_on_where_it_was` |
//! | read at most one batch, send it together, confirm in order; each success moves the cursor | `a_batch_is_sent_together_and_confirmed_in_sequence` |
//! | failed, below the maximum age: store the time of the retry, stop the round, keep the cursor at the last success | `a_failure_keeps_a_time_for_the_retry_and_stops_the_round` |
//! | the first message waits for its retry: send nothing | `while_the_first_message_waits_nothing_is_sent` |
//! | its retry is due: send it, then the next messages | `when_its_time_has_come_it_is_sent_before_what_follows` |
//! | failed, above the maximum age: write a dead letter, move the cursor, send the next message | `a_failure_that_is_too_old_is_set_aside_and_the_next_is_sent` |
//! | the age counts only after a failure | `an_old_message_is_sent_all_the_same` |

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, Filter, Retry, Route, To};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fresh;

use crate::pipeline::{LikeCreated, Pipeline, ROUTE, retry};
use crate::site::KafkaSite;

const HOUR: Duration = Duration::from_secs(3600);

async fn pipeline() -> Pipeline {
    Pipeline::open(fresh::postgres().await, KafkaSite::shared()).await
}

/// Orders 1 and 2, a like whose topic is missing, order 4.
async fn emit_one_that_fails(pipeline: &Pipeline) {
    pipeline.orders(1..=2).await;
    pipeline.emit(&LikeCreated { n: 3 }).await;
    pipeline.orders([4]).await;
}

#[tokio::test]
async fn without_messages_nothing_is_sent() {
    let mut pipeline = pipeline().await;
    let spy = pipeline.spy();
    let others = Route {
        filter: Filter::any_of(["elsewhere.**"]),
        ..pipeline.strict_route(&spy, retry(100, HOUR))
    };
    pipeline.start(pipeline.relay().route(others));
    pipeline.orders(1..=3).await; // the route's filter excludes them: it reads them and sends nothing
    let is_through = async || {
        pipeline
            .status(ROUTE)
            .await
            .is_some_and(|status| status.is_leased && status.backlog == 0)
    };
    pipeline.until("the route has read everything", is_through).await;
    pipeline.stop().await;
    assert!(spy.sizes().is_empty(), "{:?}", spy.sizes());
}

#[tokio::test]
async fn it_begins_with_the_first_message_and_goes_on_where_it_was() {
    let mut pipeline = pipeline().await;
    pipeline.orders(1..=3).await;
    let first = pipeline.start_strict_relay(retry(100, HOUR));
    pipeline.until_arrived("order", &[1, 2, 3]).await;
    pipeline.stop().await;
    assert_eq!(first.confirmed(), [1, 2, 3]);
    pipeline.orders([4]).await;
    let second = pipeline.start_strict_relay(retry(100, HOUR));
    pipeline.until_arrived("order", &[1, 2, 3, 4]).await;
    pipeline.stop().await;
    assert_eq!(second.confirmed(), [4]);
}

#[tokio::test]
async fn a_batch_is_sent_together_and_confirmed_in_sequence() {
    let mut pipeline = pipeline().await;
    pipeline.orders(1..=250).await;
    let spy = pipeline.start_strict_relay(retry(100, HOUR));
    let all: Vec<i64> = (1..=250).collect();
    pipeline.until_arrived("order", &all).await;
    pipeline.stop().await;
    assert_eq!(spy.sizes(), [100, 100, 50]);
    assert_eq!(spy.confirmed(), all);
    let status = pipeline.status(ROUTE).await.unwrap();
    assert_eq!((status.delivered, status.backlog), (250, 0));
}

#[tokio::test]
async fn a_failure_keeps_a_time_for_the_retry_and_stops_the_round() {
    let mut pipeline = Pipeline::open(fresh::postgres().await, KafkaSite::shared()).await;
    emit_one_that_fails(&pipeline).await;
    let seconds = |seconds| Duration::from_secs(seconds);
    let policy = Retry {
        delays: Delays::Fixed(seconds(10)),
        attempts_max: None,
        age_max: Some(seconds(300)),
    };
    let spy = pipeline.start_strict_relay(policy.clone());
    pipeline
        .until("one waits", async || pipeline.failed().await == (1, 0))
        .await;
    let sql = "select attempts, error, extract(epoch from next_at - now())::float8 as due from postroom.outbox_parked";
    let row = pipeline.rows(sql).await.remove(0);
    assert_eq!(row.try_get::<i32>("", "attempts").unwrap(), 1);
    let error: String = row.try_get("", "error").unwrap();
    assert!(error.contains(&pipeline.topic("like")), "{error}");
    let due_s: f64 = row.try_get("", "due").unwrap();
    assert!((1.0..=10.0).contains(&due_s), "due in {due_s} s");
    let status = pipeline.status(ROUTE).await.unwrap();
    assert_eq!(
        (status.delivered, status.backlog),
        (2, 1),
        "order 4 is not read: {status:?}"
    );
    assert_eq!(pipeline.arrived("order").await, [1, 2]);
    pipeline.stop().await;
    assert_eq!(spy.confirmed(), [1, 2]);
    // The cursor is at the last success: nothing is sent twice.
    let again = pipeline.start_strict_relay(policy);
    pipeline.create("like").await;
    pipeline.until_arrived("order", &[1, 2, 4]).await;
    pipeline.stop().await;
    assert_eq!(again.confirmed(), [3, 4]);
}

#[tokio::test]
async fn while_the_first_message_waits_nothing_is_sent() {
    let mut pipeline = pipeline().await;
    let (spy, witness) = (pipeline.spy(), pipeline.spy());
    pipeline.create("witness").await;
    let strict = pipeline.strict_route(
        &spy,
        Retry {
            delays: Delays::Fixed(HOUR),
            ..retry(0, HOUR)
        },
    );
    let unordered = Route {
        filter: Filter::any_of(["loopers.order.**"]),
        ..Route::new("witness", To::Destination(Arc::clone(&witness) as _))
    };
    pipeline.start(pipeline.relay().route(strict).route(unordered));
    emit_one_that_fails(&pipeline).await;
    pipeline
        .until("one waits", async || pipeline.failed().await == (1, 0))
        .await;
    let sent = spy.sizes();
    pipeline.orders(5..=6).await;
    let is_seen = async || witness.confirmed() == [1, 2, 4, 5, 6];
    pipeline.until("the other route has sent everything", is_seen).await;
    pipeline.stop().await;
    assert_eq!(spy.sizes(), sent, "no further call");
    assert_eq!(spy.confirmed(), [1, 2]);
}

#[tokio::test]
async fn when_its_time_has_come_it_is_sent_before_what_follows() {
    let mut pipeline = pipeline().await;
    let spy = pipeline.start_strict_relay(retry(300, HOUR));
    emit_one_that_fails(&pipeline).await;
    pipeline
        .until("one waits", async || pipeline.failed().await == (1, 0))
        .await;
    let topic = pipeline.topic("like");
    pipeline.site.create(&topic, 1).await;
    pipeline.until_arrived("order", &[1, 2, 4]).await;
    pipeline.stop().await;
    assert_eq!(pipeline.arrived("like").await, [3]);
    assert_eq!(spy.confirmed(), [1, 2, 3, 4]);
    assert_eq!(pipeline.failed().await, (0, 0));
}

#[tokio::test]
async fn a_failure_that_is_too_old_is_set_aside_and_the_next_is_sent() {
    let mut pipeline = pipeline().await;
    let age_max = Duration::from_secs(2);
    let spy = pipeline.start_strict_relay(retry(300, age_max));
    emit_one_that_fails(&pipeline).await;
    pipeline.until_arrived("order", &[1, 2, 4]).await;
    pipeline.stop().await;
    assert_eq!(spy.confirmed(), [1, 2, 4]);
    let letter = pipeline.letters().await.remove(0);
    assert!(letter.attempts >= 2, "{letter:?}");
    assert!(letter.dead_at - letter.entry.created_at > age_max, "{letter:?}");
    let payload: serde_json::Value = letter.entry.event.decode().unwrap();
    assert_eq!(payload, serde_json::json!({ "n": 3 }));
    assert!(letter.error.contains(&pipeline.topic("like")), "{}", letter.error);
}

#[tokio::test]
async fn an_old_message_is_sent_all_the_same() {
    let mut pipeline = pipeline().await;
    emit_one_that_fails(&pipeline).await;
    let age_max = Duration::from_millis(500);
    let emitted = postroom::clock::now();
    pipeline
        .until("they are too old", async || postroom::clock::now() - emitted > age_max)
        .await;
    let spy = pipeline.start_strict_relay(retry(300, age_max));
    pipeline.until_arrived("order", &[1, 2, 4]).await;
    pipeline.stop().await;
    assert_eq!(spy.confirmed(), [1, 2, 4], "the age counts only after a failure");
    assert_eq!(pipeline.letters().await.remove(0).attempts, 1, "and is tried once");
}
