//! Postroom's broker on Apache Kafka.
//!
//! [`Kafka`] is a [`Broker`](postroom::Broker): routes publish `CloudEvents` through it, keyed by aggregate id, and subscribers are
//! fed from it as members of consumer groups. Topics are never made unasked: see [`Kafka::plan`] and [`Kafka::apply`].
//! Built on librdkafka, which is compiled in; TLS and SCRAM need the cargo feature `tls`.

mod bury;
mod client;
mod error;
mod hand;
mod join;
mod lag;
mod member;
mod options;
mod publish;
mod rebalance;
mod record;
mod tally;
mod topics;
mod transact;

pub use client::Kafka;
pub use lag::Lag;
pub use options::{Login, Mechanism, Options, Security};
pub use topics::{Difference, TopicSpec};
