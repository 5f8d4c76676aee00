//! Tests of Umbra over HTTP: requests and their effects.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests and their harness: a panic fails the test"
)]

/// A test on each database.
macro_rules! on_each_database {
    ($($name:ident: $sqlite:ident, $postgres:ident, $mariadb:ident;)+) => {
        $(
            #[tokio::test]
            async fn $sqlite() {
                $name(postroom_testkit::fresh::sqlite().await).await;
            }

            #[tokio::test]
            async fn $postgres() {
                $name(postroom_testkit::fresh::postgres().await).await;
            }

            #[tokio::test]
            async fn $mariadb() {
                $name(postroom_testkit::fresh::mysql().await).await;
            }
        )+
    };
}

mod site;

mod alert;
mod archive;
mod catalogue;
mod charge;
mod clock;
mod contexts;
mod demo;
mod event;
mod failure;
mod flow;
mod guide;
mod listing;
mod message;
mod migrate;
mod process;
mod refusal;
mod repeat;
