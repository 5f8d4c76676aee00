//! Tests of the shop over HTTP: on every store, directly from the outbox and through Kafka.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

/// Makes each function a test on each store, directly from the outbox.
macro_rules! on_every_store {
    ($($test:ident)*) => {
        on_every_store! { sqlite: $($test)* }
        on_every_store! { postgres: $($test)* }
        on_every_store! { mysql: $($test)* }
    };
    ($store:ident: $($test:ident)*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let shop = crate::shop::Shop::open(postroom_testkit::fresh::$store().await, None).await;
                Box::pin(super::$test(shop)).await;
            })*
        }
    };
}

/// Like `on_every_store!`, and also on PostgreSQL through Kafka.
macro_rules! on_every_way {
    ($($test:ident)*) => {
        on_every_store! { $($test)* }
        mod postgres_through_kafka {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let kafka = postroom_testkit::own_topics::OwnTopics::create(&crate::shop::TOPICS).await;
                let shop = crate::shop::Shop::open(postroom_testkit::fresh::postgres().await, Some(kafka)).await;
                Box::pin(super::$test(shop)).await;
            })*
        }
    };
}

mod cache;
mod counting;
mod crash;
mod dead;
mod event;
mod guide;
mod log;
mod migrate;
mod new_event;
mod refusal;
mod run;
mod sale;
mod shop;
