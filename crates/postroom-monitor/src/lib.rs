#![doc = include_str!("../README.md")]

mod health;
mod metrics;
pub mod progress;

pub use health::{Readiness, ReadinessReport};
pub use metrics::Metrics;
/// The library in which metrics of your own are written; re-exported, so that its version fits [`Metrics::register`].
pub use prometheus_client;
