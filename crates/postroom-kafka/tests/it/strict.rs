//! The ordered relay, branch by branch, on a real Kafka. A route with `ordering = "strict"` is a line: nothing passes a message
//! that failed until it succeeds or is too old.
//!
//! | branch | test |
//! |---|---|
//! | no message: the round ends | `without_messages_nothing_is_sent` |
//! | no cursor: from the first message; otherwise from where it was | `it_begins_with_the_first_message_and_goes_on_where_it_was` |
//! | at most a batch is read, sent together and confirmed in sequence; each success moves the cursor | `a_batch_is_sent_together_and_confirmed_in_sequence` |
//! | failed, not too old: a time for the retry is kept, the round stops, the cursor stays at what succeeded | `a_failure_keeps_a_time_for_the_retry_and_stops_the_round` |
//! | the first message waits: nothing is sent | `while_the_first_message_waits_nothing_is_sent` |
//! | its time has come: it is sent, and what follows | `when_its_time_has_come_it_is_sent_before_what_follows` |
//! | failed and too old: set aside, the cursor moves, the next is sent | `a_failure_that_is_too_old_is_set_aside_and_the_next_is_sent` |
//! | age is asked only after a failure | `an_old_message_is_sent_all_the_same` |

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, Filter, Retry, Route, To};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fresh;

use crate::office::{LikeCreated, Office, ROUTE, retry};
use crate::site::KafkaSite;

const HOUR: Duration = Duration::from_secs(3600);

async fn office() -> Office {
    Office::open(fresh::postgres().await, KafkaSite::shared()).await
}

/// Orders 1 and 2, a like whose topic is missing, order 4.
async fn emit_one_that_fails(office: &Office) {
    office.orders(1..=2).await;
    office.emit(&LikeCreated { n: 3 }).await;
    office.orders([4]).await;
}

#[tokio::test]
async fn without_messages_nothing_is_sent() {
    let mut office = office().await;
    let spy = office.spy();
    let others = Route {
        filter: Filter::any_of(["elsewhere.**"]),
        ..office.line(&spy, retry(100, HOUR))
    };
    office.start(office.relay().route(others));
    office.orders(1..=3).await; // not for this route: it passes them, and has nothing to send
    let is_through = async || {
        office
            .status(ROUTE)
            .await
            .is_some_and(|line| line.is_leased && line.backlog == 0)
    };
    office.until("the line has seen everything", is_through).await;
    office.stop().await;
    assert!(spy.sizes().is_empty(), "{:?}", spy.sizes());
}

#[tokio::test]
async fn it_begins_with_the_first_message_and_goes_on_where_it_was() {
    let mut office = office().await;
    office.orders(1..=3).await;
    let first = office.start_line(retry(100, HOUR));
    office.until_arrived("order", &[1, 2, 3]).await;
    office.stop().await;
    assert_eq!(first.confirmed(), [1, 2, 3]);
    office.orders([4]).await;
    let second = office.start_line(retry(100, HOUR));
    office.until_arrived("order", &[1, 2, 3, 4]).await;
    office.stop().await;
    assert_eq!(second.confirmed(), [4]);
}

#[tokio::test]
async fn a_batch_is_sent_together_and_confirmed_in_sequence() {
    let mut office = office().await;
    office.orders(1..=250).await;
    let spy = office.start_line(retry(100, HOUR));
    let all: Vec<i64> = (1..=250).collect();
    office.until_arrived("order", &all).await;
    office.stop().await;
    assert_eq!(spy.sizes(), [100, 100, 50]);
    assert_eq!(spy.confirmed(), all);
    let line = office.status(ROUTE).await.unwrap();
    assert_eq!((line.delivered, line.backlog), (250, 0));
}

#[tokio::test]
async fn a_failure_keeps_a_time_for_the_retry_and_stops_the_round() {
    let mut office = Office::open(fresh::postgres().await, KafkaSite::shared()).await;
    emit_one_that_fails(&office).await;
    let seconds = |seconds| Duration::from_secs(seconds);
    let policy = Retry {
        delays: Delays::Fixed(seconds(10)),
        attempts_max: None,
        age_max: Some(seconds(300)),
    };
    let spy = office.start_line(policy.clone());
    office
        .until("one waits", async || office.failed().await == (1, 0))
        .await;
    let sql = "select attempts, error, extract(epoch from next_at - now())::float8 as due from postroom.outbox_parked";
    let row = office.rows(sql).await.remove(0);
    assert_eq!(row.try_get::<i32>("", "attempts").unwrap(), 1);
    let error: String = row.try_get("", "error").unwrap();
    assert!(error.contains(&office.topic("like")), "{error}");
    let due_s: f64 = row.try_get("", "due").unwrap();
    assert!((1.0..=10.0).contains(&due_s), "due in {due_s} s");
    let line = office.status(ROUTE).await.unwrap();
    assert_eq!((line.delivered, line.backlog), (2, 1), "order 4 is not read: {line:?}");
    assert_eq!(office.arrived("order").await, [1, 2]);
    office.stop().await;
    assert_eq!(spy.confirmed(), [1, 2]);
    // The cursor stayed behind what succeeded: nothing is sent again.
    let again = office.start_line(policy);
    office.create("like").await;
    office.until_arrived("order", &[1, 2, 4]).await;
    office.stop().await;
    assert_eq!(again.confirmed(), [3, 4]);
}

#[tokio::test]
async fn while_the_first_message_waits_nothing_is_sent() {
    let mut office = office().await;
    let (spy, witness) = (office.spy(), office.spy());
    office.create("witness").await;
    let line = office.line(
        &spy,
        Retry {
            delays: Delays::Fixed(HOUR),
            ..retry(0, HOUR)
        },
    );
    let beside = Route {
        filter: Filter::any_of(["loopers.order.**"]),
        ..Route::new("witness", To::Destination(Arc::clone(&witness) as _))
    };
    office.start(office.relay().route(line).route(beside));
    emit_one_that_fails(&office).await;
    office
        .until("one waits", async || office.failed().await == (1, 0))
        .await;
    let sent = spy.sizes();
    office.orders(5..=6).await;
    let is_seen = async || witness.confirmed() == [1, 2, 4, 5, 6];
    office.until("the route beside it has sent everything", is_seen).await;
    office.stop().await;
    assert_eq!(spy.sizes(), sent, "no further call");
    assert_eq!(spy.confirmed(), [1, 2]);
}

#[tokio::test]
async fn when_its_time_has_come_it_is_sent_before_what_follows() {
    let mut office = office().await;
    let spy = office.start_line(retry(300, HOUR));
    emit_one_that_fails(&office).await;
    office
        .until("one waits", async || office.failed().await == (1, 0))
        .await;
    let topic = office.topic("like");
    office.site.create(&topic, 1).await;
    office.until_arrived("order", &[1, 2, 4]).await;
    office.stop().await;
    assert_eq!(office.arrived("like").await, [3]);
    assert_eq!(spy.confirmed(), [1, 2, 3, 4]);
    assert_eq!(office.failed().await, (0, 0));
}

#[tokio::test]
async fn a_failure_that_is_too_old_is_set_aside_and_the_next_is_sent() {
    let mut office = office().await;
    let age_max = Duration::from_secs(2);
    let spy = office.start_line(retry(300, age_max));
    emit_one_that_fails(&office).await;
    office.until_arrived("order", &[1, 2, 4]).await;
    office.stop().await;
    assert_eq!(spy.confirmed(), [1, 2, 4]);
    let letter = office.letters().await.remove(0);
    assert!(letter.attempts >= 2, "{letter:?}");
    assert!(letter.dead_at - letter.entry.created_at > age_max, "{letter:?}");
    let payload: serde_json::Value = letter.entry.event.decode().unwrap();
    assert_eq!(payload, serde_json::json!({ "n": 3 }));
    assert!(letter.error.contains(&office.topic("like")), "{}", letter.error);
}

#[tokio::test]
async fn an_old_message_is_sent_all_the_same() {
    let mut office = office().await;
    emit_one_that_fails(&office).await;
    let age_max = Duration::from_millis(500);
    let emitted = postroom::clock::now();
    office
        .until("they are too old", async || postroom::clock::now() - emitted > age_max)
        .await;
    let spy = office.start_line(retry(300, age_max));
    office.until_arrived("order", &[1, 2, 4]).await;
    office.stop().await;
    assert_eq!(spy.confirmed(), [1, 2, 4], "only what fails is asked for its age");
    assert_eq!(office.letters().await.remove(0).attempts, 1, "and is tried once");
}
