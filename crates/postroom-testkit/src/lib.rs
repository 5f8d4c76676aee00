#![doc = include_str!("../README.md")]

pub mod broker_suite;
pub mod browser;
pub mod cable;
pub mod certificate;
pub mod client;
pub mod destination_suite;
pub mod embedded;
pub mod event_stream;
pub mod fake_messenger;
pub mod fake_posthog;
pub mod fan_out_suite;
pub mod feed;
pub mod foreign;
pub mod fresh;
pub mod gate;
pub mod half_way;
mod home;
pub mod interpreter;
pub mod kafka_server;
pub mod memory_broker;
pub mod outbox_suite;
#[cfg(feature = "kafka")]
pub mod own_topics;
pub mod rabbitmq_server;
pub mod rate_limit_suite;
pub mod receiver;
pub mod redis_server;
pub mod registry_suite;
pub mod relay_suite;
pub mod server;
pub mod stage;
pub mod tally_suite;
pub mod ticket_suite;
pub mod wait;
pub mod walk;
pub mod web_socket;

pub use client::Client;
pub use fresh::Fresh;
pub use receiver::Receiver;

/// Makes each function a test on SQLite, PostgreSQL and MariaDB.
#[macro_export]
macro_rules! on_each_database {
    ($($name:ident: $sqlite:ident, $postgres:ident, $mariadb:ident;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $sqlite() {
                Box::pin($name($crate::fresh::sqlite().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $postgres() {
                Box::pin($name($crate::fresh::postgres().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $mariadb() {
                Box::pin($name($crate::fresh::mysql().await)).await;
            }
        )+
    };
}
