//! The broker and destination suites on a real Kafka, and tests that are specific to Kafka.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::future::{Ready, ready};

use postroom_testkit::broker_suite::Published;
use postroom_testkit::feed::Feed;
use postroom_testkit::{Fresh, fresh};

mod foreign;
mod missing;
mod offset;
mod pipeline;
mod publish;
mod rebalance;
mod sales;
mod scenario;
mod security;
mod site;
mod strict;
mod topics;
mod transact;

use site::KafkaSite;

mod broker {
    postroom_testkit::broker_suite!(super::shared, super::private);
}

mod publisher {
    postroom_testkit::destination_suite!(super::published_shared, super::published_private);
}

/// A transactional publisher passes the same suite.
mod transactional_publisher {
    postroom_testkit::destination_suite!(super::transacted_shared, super::transacted_private);
}

/// The subscriber suites with Kafka as the source of events.
mod fed {
    postroom_testkit::feed_suite!(crate::fed);
    postroom_testkit::move_suite!(crate::fed);
    postroom_testkit::copies_suite!(crate::fed);
}

fn shared() -> Ready<KafkaSite> {
    ready(KafkaSite::shared())
}

async fn private() -> KafkaSite {
    KafkaSite::private().await
}

async fn published_shared() -> Published<KafkaSite> {
    Published::on(shared().await).await
}

async fn published_private() -> Published<KafkaSite> {
    Published::on(private().await).await
}

async fn transacted_shared() -> Published<KafkaSite> {
    Published::on(shared().await.in_transactions()).await
}

async fn transacted_private() -> Published<KafkaSite> {
    Published::on(private().await.in_transactions()).await
}

pub(crate) async fn fed() -> Fresh {
    let feed = Feed::on(&mut shared().await).await;
    fresh::sqlite().await.fed_by(feed)
}
