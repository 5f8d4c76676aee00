//! The suites of brokers and destinations on the broker in memory, and on twins that must fail them.

use std::future::{Ready, ready};

use postroom_testkit::broker_suite::{self, Published};
use postroom_testkit::feed::Feed;
use postroom_testkit::memory_broker::{Flaw, MemoryBroker};
use postroom_testkit::{Fresh, destination_suite, fresh};

use crate::failure::failure;

mod suite {
    postroom_testkit::broker_suite!(super::in_memory, super::in_memory);
}

mod publisher {
    postroom_testkit::destination_suite!(super::published, super::published);
}

fn in_memory() -> Ready<MemoryBroker> {
    ready(MemoryBroker::default())
}

async fn published() -> Published<MemoryBroker> {
    Published::on(MemoryBroker::default()).await
}

#[tokio::test]
async fn a_heedless_publisher_is_caught() {
    let twin = Published::on(MemoryBroker::with(Flaw::Heedless)).await;
    let words = failure(twin, destination_suite::what_is_refused_holds_its_key).await;
    assert!(words.contains(r#"left: "++!+++""#), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_forgetful_broker_is_caught() {
    let twin = MemoryBroker::with(Flaw::Forgetful);
    let words = failure(twin, broker_suite::what_is_not_acknowledged_comes_again_in_order).await;
    assert!(words.contains("0 of 60 messages came"), "{words}");
}

/// Every clause about subscribers holds through a broker too.
mod fed {
    postroom_testkit::feed_suite!(crate::broker::fed);
}

pub(crate) async fn fed() -> Fresh {
    let feed = Feed::on(&mut MemoryBroker::default()).await;
    fresh::sqlite().await.fed_by(feed)
}
