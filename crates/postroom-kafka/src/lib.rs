//! Postroom's broker on Apache Kafka.
//!
//! [`Kafka`] is a [`Broker`](postroom::Broker): routes publish `CloudEvents` to it, with the aggregate id as key, and subscribers
//! receive them as members of consumer groups. It creates topics only on request: see [`Kafka::plan`] and [`Kafka::apply`].
//! It links librdkafka statically. TLS and SCRAM need the cargo feature `tls`.

mod assignment;
mod bury;
mod client;
mod error;
mod join;
mod lag;
mod member;
mod options;
mod progress;
mod publish;
mod rebalance;
mod record;
mod topics;
mod transact;

pub use client::Kafka;
pub use lag::Lag;
pub use options::{Login, Mechanism, Options, Security};
pub use topics::{Difference, TopicSpec};
