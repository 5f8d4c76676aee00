//! Tests of activity collection on each database.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

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

mod posthog;
mod posthog_relay;
mod sink;
mod store;
mod webhook;
