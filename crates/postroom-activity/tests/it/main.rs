//! Tests of activity collection on real databases, over HTTP and in a browser.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests and their harness: a panic fails the test"
)]

/// A test on each database.
macro_rules! on_each_database {
    ($($name:ident: $sqlite:ident, $postgres:ident, $mariadb:ident;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $sqlite() {
                Box::pin($name(postroom_testkit::fresh::sqlite().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $postgres() {
                Box::pin($name(postroom_testkit::fresh::postgres().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $mariadb() {
                Box::pin($name(postroom_testkit::fresh::mysql().await)).await;
            }
        )+
    };
}

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
