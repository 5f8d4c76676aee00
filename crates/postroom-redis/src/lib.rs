//! Postroom's broker on Redis Streams (Redis 7.0 or later).
//!
//! A topic has one stream per partition: `postroom:{order-events}:0` and so on. A key always maps to the same partition. One
//! member of a group at a time processes a partition, with a lease that every script checks on the server. This keeps keys in
//! order, which plain consumer groups do not. Entries that every group has acknowledged are trimmed; others are not.

mod assignment;
mod broker;
mod connection;
mod fetch;
mod fields;
mod id;
mod lease_keeper;
mod member;
mod names;
mod options;
mod publish_plan;
mod publisher;
mod script;
mod tls;

pub use broker::{Lag, Redis};
pub use options::Options;
