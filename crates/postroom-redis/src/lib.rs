#![doc = include_str!("../README.md")]

mod assignment;
mod broker;
mod buried;
mod connection;
mod fan_out;
mod fetch;
mod fields;
mod id;
mod lease_keeper;
mod member;
mod names;
mod options;
mod publish_plan;
mod publisher;
mod rate_limit;
mod registry;
mod script;
mod shared_state;
mod tally;
mod ticket;
mod tls;

pub use broker::{Lag, Redis};
pub use options::Options;
pub use rate_limit::RedisRateLimiter;
pub use tally::RedisTally;
