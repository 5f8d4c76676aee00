#![doc = include_str!("../README.md")]

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
