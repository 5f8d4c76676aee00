//! The suites of brokers and destinations on a real Redis, and what is particular to it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a test without its server has failed"
)]

mod again;
mod events;
mod foreign;
mod lease;
mod memory;
mod server;
mod site;
mod tls;
mod trim;

mod suite {
    postroom_testkit::broker_suite!(crate::site::shared, crate::site::private);
}

mod publisher {
    postroom_testkit::destination_suite!(crate::site::published_shared, crate::site::published_private);
}

/// Every clause about subscribers holds through Redis too.
mod fed {
    postroom_testkit::feed_suite!(crate::site::fed);
    postroom_testkit::move_suite!(crate::site::fed);
}
