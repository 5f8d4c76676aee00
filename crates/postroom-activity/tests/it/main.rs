//! Tests of activity collection on real databases, over HTTP and in a browser.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests and their harness: a panic fails the test"
)]

mod ingest_site;

use std::sync::Arc;

use postroom_activity::pii::Keys;
use postroom_activity::{Activity, Privacy};

mod browser;
mod ingest;
mod ingest_limit;
mod ingest_request;
mod posthog;
mod posthog_relay;
mod privacy;
mod recorder;
mod reprocess;
mod sink;
mod store;
mod switch;
mod webhook;

/// Keys that only tests have.
fn keys() -> Keys {
    Keys::new("k1", b"an invented secret that only tests use").unwrap()
}

fn privacy() -> Arc<Privacy> {
    Arc::new(Privacy::with_keys(keys()).unwrap())
}

fn activity() -> Activity {
    Activity::default().hash_keys(keys())
}
