//! The broker and destination suites on a real Redis, and tests that are specific to Redis.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

mod again;
mod events;
mod fan_out;
mod foreign;
mod lease;
mod memory;
mod names;
mod rate_limit;
mod reader;
mod registry;
mod server;
mod shared_state;
mod site;
mod straight;
mod tally;
mod tls;
mod trim;

mod suite {
    postroom_testkit::broker_suite!(crate::site::shared, crate::site::private);
}

mod publisher {
    postroom_testkit::destination_suite!(crate::site::published_shared, crate::site::published_private);
}

/// The subscriber suites with Redis as the source of events.
mod fed {
    postroom_testkit::feed_suite!(crate::site::fed);
    postroom_testkit::move_suite!(crate::site::fed);
    postroom_testkit::copies_suite!(crate::site::fed);
}
