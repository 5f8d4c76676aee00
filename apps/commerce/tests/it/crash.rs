//! A crash at each step between the database and the effect, on PostgreSQL through Kafka: every event counts exactly once.

use std::sync::Arc;

use postroom_testkit::fresh;
use postroom_testkit::gate::{Gated, Step};
use postroom_testkit::own_topics::OwnTopics;

use crate::shop::{Shop, TOPICS};

/// Runs one purchase, stops the process at a step, and continues in another process.
async fn crash_at(step: Step) {
    let topics = OwnTopics::create(&TOPICS).await;
    let gated = Arc::new(Gated::new(topics.broker(), step));
    let broker = Arc::clone(&gated) as _;
    let shop = Shop::through(fresh::postgres().await, topics, broker).await;
    let lamp = shop.product(100, 3).await;
    shop.view(lamp, 7).await;
    shop.like(lamp, 7, true).await;
    assert_eq!(shop.buy(7, &[(lamp, 2)]).await.0, 201);
    gated.gate.reached().await;

    let shop = shop.killed_and_reopened(commerce::module()).await;
    shop.view(lamp, 8).await;
    assert_eq!(shop.buy(8, &[(lamp, 1)]).await.0, 201);
    shop.until_counted(lamp, [1, 3, 2]).await;
    shop.deliver_again().await;
    assert_eq!(shop.metrics(lamp).await, [1, 3, 2], "{step:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_07_after_the_commit() {
    crash_at(Step::BeforeSend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_07_after_the_send() {
    crash_at(Step::AfterSend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_07_after_the_brokers_answer() {
    crash_at(Step::AfterAck).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_07_before_the_offset() {
    crash_at(Step::BeforeOffset).await;
}
