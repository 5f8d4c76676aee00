//! What goes wrong in a pipeline from an outbox through Kafka to consumers, and what is to happen then. Each line of that list
//! is a test, with a store on PostgreSQL.
//!
//! | what goes wrong | what happens | test |
//! |---|---|---|
//! | Kafka is away for a while | what is emitted waits, and goes in order when it is back | `kafka_away_for_a_while_gets_everything_in_order` |
//! | one message cannot be published | it is kept and retried from the outbox | `a_message_that_cannot_be_published_is_retried_from_the_outbox` |
//! | it still fails when it is too old | it is set aside for good, and the next ones go on | `a_message_that_fails_for_too_long_is_set_aside_and_the_next_go_on` |
//! | order matters | what follows a failed message waits until it succeeds or is too old | `what_follows_a_failed_message_waits_until_it_succeeds_or_is_too_old` |
//! | several instances run | one publishes, each message once | `of_two_instances_one_publishes_each_message_once` |
//! | a consumer fails on a message | three retries a second apart, then its `.DLT`; the others go on; it can be processed again | `a_consumer_that_fails_retries_three_times_then_the_message_is_in_the_dlt` |
//! | the check for repetitions fails | the same, and without it nothing has an effect | `a_check_for_repetitions_that_fails_has_no_effect_and_ends_in_the_dlt` |

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{DomainEvent as _, Relay};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fresh;

use crate::office::{LikeCreated, Office, OrderPaid, ROUTE, retry};
use crate::sales::{Sales, sold, start_consumer};
use crate::site::{KafkaSite, headers};

const HOUR: Duration = Duration::from_secs(3600);

async fn office() -> Office {
    Office::open(fresh::postgres().await, KafkaSite::shared()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_away_for_a_while_gets_everything_in_order() {
    let mut office = Office::open(fresh::postgres().await, KafkaSite::private().await).await;
    let spy = office.start_line(retry(500, HOUR));
    office.orders(1..=20).await;
    office.until_arrived("order", &(1..=20).collect::<Vec<_>>()).await;
    office.site.stop().await;
    office.orders(21..=40).await;
    office
        .until("it was tried in vain", async || spy.unavailable().len() >= 2)
        .await;
    office.orders(41..=60).await;
    office.site.start().await;
    let all: Vec<i64> = (1..=60).collect();
    office
        .until("everything is confirmed", async || spy.confirmed() == all)
        .await;
    office.stop().await;
    let mut arrived = office.arrived("order").await;
    arrived.dedup(); // what was under way when it went may be there twice
    assert_eq!(arrived, all);
    assert!(office.letters().await.is_empty(), "nothing was given up");
}

#[tokio::test]
async fn a_message_that_cannot_be_published_is_retried_from_the_outbox() {
    let mut office = office().await;
    office.orders([1]).await;
    office.emit(&LikeCreated { n: 2 }).await;
    office.start_line(retry(500, HOUR));
    office
        .until("it waits for a retry", async || office.failed().await == (1, 0))
        .await;
    office.stop().await; // whoever comes next finds it
    let spy = office.start_line(retry(500, HOUR));
    office.create("like").await;
    office.until_arrived("like", &[2]).await;
    office.stop().await;
    assert_eq!(spy.confirmed(), [2], "and nothing else again");
    assert_eq!(office.failed().await, (0, 0));
}

#[tokio::test]
async fn a_message_that_fails_for_too_long_is_set_aside_and_the_next_go_on() {
    let mut office = office().await;
    let spy = office.start_line(retry(300, Duration::from_secs(2)));
    office.orders([1]).await;
    let id = office.emit(&LikeCreated { n: 2 }).await;
    office.orders(3..=5).await;
    office.until_arrived("order", &[1, 3, 4, 5]).await;
    assert_eq!(spy.confirmed(), [1, 3, 4, 5]);
    // Kept for people, with all they need; not tried again by itself.
    let sql = "select event_id::text as event_id, event_type, source, aggregate_type, aggregate_id, payload::text as payload, \
               error, dead_at::text as dead_at from postroom.outbox_failed";
    let row = office.rows(sql).await.remove(0);
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
    assert!(text("error").contains(&office.topic("like")) && !text("dead_at").is_empty());
    office.create("like").await;
    office.orders([6]).await;
    office.until_arrived("order", &[1, 3, 4, 5, 6]).await;
    office.stop().await;
    assert!(office.arrived("like").await.is_empty());
}

#[tokio::test]
async fn what_follows_a_failed_message_waits_until_it_succeeds_or_is_too_old() {
    let mut office = office().await;
    let spy = office.start_line(retry(300, Duration::from_secs(8)));
    office.emit(&LikeCreated { n: 1 }).await;
    office.orders(2..=3).await;
    office
        .until("it waits for a retry", async || office.failed().await == (1, 0))
        .await;
    assert!(
        spy.confirmed().is_empty(),
        "what follows waits, though its topic is there"
    );
    office.create("like").await;
    office.until_arrived("order", &[2, 3]).await;
    assert_eq!(spy.confirmed(), [1, 2, 3], "it succeeded first");
    office.emit(&Unplaced { n: 4 }).await;
    office.orders([5]).await;
    office
        .until("the next one waits", async || office.failed().await == (1, 0))
        .await;
    assert_eq!(spy.confirmed(), [1, 2, 3]);
    office.until_arrived("order", &[2, 3, 5]).await;
    office.stop().await;
    assert_eq!(office.failed().await, (0, 1), "it was too old first");
}

/// An event whose topic nobody makes.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Unplaced {
    n: i64,
}

impl postroom::DomainEvent for Unplaced {
    const TYPE: &'static str = "loopers.stock.depleted.v1";
    const AGGREGATE_TYPE: &'static str = "Product";

    fn aggregate_id(&self) -> String {
        "product-2".to_owned()
    }
}

#[tokio::test]
async fn of_two_instances_one_publishes_each_message_once() {
    let mut office = office().await;
    let one = office.start_line(retry(300, HOUR));
    let is_leased = async || office.status(ROUTE).await.is_some_and(|line| line.is_leased);
    office.until("the first one publishes", is_leased).await;
    let (two, other_store) = (office.spy(), office.fresh.second().await);
    let route = office.line(&two, retry(300, HOUR));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut other = tokio::task::JoinSet::new();
    let relay = Relay::new(other_store).lease_ttl(Duration::from_secs(3)).route(route);
    other.spawn(relay.run(stop.clone()));
    office.orders(1..=300).await;
    let all: Vec<i64> = (1..=300).collect();
    office.until_arrived("order", &all).await;
    assert_eq!(one.confirmed(), all);
    assert!(two.sizes().is_empty(), "the other one waits: {:?}", two.sizes());
    office.stop().await;
    office.orders(301..=310).await;
    let all: Vec<i64> = (1..=310).collect();
    office.until_arrived("order", &all).await;
    assert_eq!(two.confirmed(), (301..=310).collect::<Vec<_>>(), "and takes over");
    stop.cancel();
    other.join_next().await.unwrap().unwrap().unwrap();
}

/// The one letter in the topic of dead letters, with its headers.
async fn buried(office: &Office) -> (std::collections::BTreeMap<String, String>, i64) {
    let dlt = format!("{}.DLT", office.topic("order"));
    office
        .until("the letter is in the topic of dead letters", async || {
            !office.site.read(&dlt, "read_committed").await.is_empty()
        })
        .await;
    let letters = office.site.read(&dlt, "read_committed").await;
    assert_eq!(letters.len(), 1);
    (headers(&letters[0]), crate::publish::number(&letters[0]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_fails_retries_three_times_then_the_message_is_in_the_dlt() {
    let (mut office, sales) = (office().await, Sales::failing_on(3));
    let group = start_consumer(&mut office, &sales).await;
    office.orders(1..=6).await; // 3 and 6 are of one order
    office
        .until("the others are counted", async || {
            sold(&office).await == [1, 2, 4, 5, 6]
        })
        .await;
    let (headers, number) = buried(&office).await;
    assert_eq!(number, 3);
    assert_eq!(headers["postroom-origin-topic"], office.topic("order"));
    assert_eq!(headers["postroom-origin-place"], "partition 0, offset 2");
    assert_eq!(
        (&headers["postroom-group"], headers["postroom-attempts"].as_str()),
        (&group, "4")
    );
    assert!(headers["postroom-error"].contains("no shelf for 3"), "{headers:?}");
    assert_eq!(headers["ce_type"], OrderPaid::TYPE);
    // At once it is called only to find out which message of several has failed.
    let calls = sales.calls(3);
    let waits = calls.windows(2).map(|two| two[1] - two[0]);
    let retries = waits.filter(|wait| *wait >= Duration::from_millis(950)).count();
    assert_eq!(retries, 3, "three retries a second apart: {calls:?}");
    let is_acknowledged = async || office.site.behind(&group, &office.topic("order")).await == 0;
    office.until("the topic has moved on", is_acknowledged).await;
    // Mended, it is processed again, once.
    sales.bad.lock().unwrap().clear();
    let retried = dead::retry(office.store().db(), &Selection::default(), "me")
        .await
        .unwrap();
    assert_eq!(retried, 1);
    office
        .until("it is counted", async || sold(&office).await == [1, 2, 3, 4, 5, 6])
        .await;
    office.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_for_repetitions_that_fails_has_no_effect_and_ends_in_the_dlt() {
    let (mut office, sales) = (office().await, Sales::default());
    let broken = "create function break_inbox() returns trigger language plpgsql as $$ begin
        if exists (select 1 from postroom.outbox where payload->>'n' = '2'
                   and new.idempotency_key like '%:' || event_id) then raise exception 'the inbox is broken'; end if;
        return new; end $$";
    office.execute(broken).await;
    let on = "create trigger break_inbox before insert on postroom.event_handled for each row execute function break_inbox()";
    office.execute(on).await;
    start_consumer(&mut office, &sales).await;
    office.orders(1..=3).await;
    office
        .until("the others are counted", async || sold(&office).await == [1, 3])
        .await;
    let (headers, number) = buried(&office).await;
    assert_eq!((number, headers["postroom-attempts"].as_str()), (2, "4"));
    assert!(headers["postroom-error"].contains("the inbox is broken"), "{headers:?}");
    assert_eq!(sold(&office).await, [1, 3], "no effect without its row in the inbox");
    // The look into the inbox fails too while it is away; nothing has an effect before it is back, and then one.
    office
        .execute("alter table postroom.event_handled rename to mislaid")
        .await;
    office.orders([4]).await;
    office
        .until("it waits", async || {
            office.rows("select 1 from postroom.outbox_parked").await.len() == 1
        })
        .await;
    assert_eq!(sold(&office).await, [1, 3]);
    office
        .execute("alter table postroom.mislaid rename to event_handled")
        .await;
    office
        .until("it is counted", async || sold(&office).await == [1, 3, 4])
        .await;
    office.stop().await;
    assert_eq!(office.letters().await.len(), 1);
}
