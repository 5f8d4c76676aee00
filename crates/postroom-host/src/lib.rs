#![doc = include_str!("../README.md")]

mod access;
mod alert;
mod body;
mod catalog;
mod declared;
mod events;
mod front;
mod health;
mod host;
mod module;
mod platform;
mod problem;
mod routes;
mod server;

pub use access::{Access, Caller, Doors};
pub use alert::{Finding, Messengers, Rule, Watch};
pub use body::Body;
pub use catalog::{Catalogue, Listed, Lock, Verdict};
pub use host::Host;
pub use module::{Misconfigured, Mistake, Module, Queue, QueueNames, Retired};
pub use platform::{Feed, Platform, Process, Retention, Topics};
pub use postroom_monitor::{Metrics, Readiness, ReadinessReport, prometheus_client};
pub use problem::Problem;
pub use routes::{Operation, Routes};
pub use server::{ClientAddress, HostName, Hosts, LongLived, Network, Origin, Serving, TlsFiles};

/// The guide's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct EmbeddingGuide;
