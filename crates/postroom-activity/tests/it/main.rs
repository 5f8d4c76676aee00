//! Tests of activity collection on real databases, over HTTP and in a browser.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests and their harness: a panic fails the test"
)]

mod ingest_site;

mod browser;
mod ingest;
mod ingest_limit;
mod ingest_request;
mod posthog;
mod posthog_relay;
mod sink;
mod store;
mod webhook;
