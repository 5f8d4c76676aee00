//! Postroom's broker on Redis Streams (Redis 7.0 or later).
//!
//! A topic is a few streams, its partitions: `postroom:{order-events}:0` and on. A key always goes to the same one, and
//! of a group one member at a time works a partition, under a lease that every step checks on the server: that is what
//! keeps keys in order, which plain consumer groups do not. What every group has acknowledged is trimmed; what one has
//! not, is not.

mod broker;
mod fetch;
mod fields;
mod holding;
mod id;
mod keeper;
mod link;
mod member;
mod names;
mod options;
mod publisher;
mod script;
mod tls;
mod wave;

pub use broker::{Lag, Redis};
pub use options::Options;
