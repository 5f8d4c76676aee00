//! What a module is, and the HTTP server that hosts modules.
//!
//! A [`Module`] bundles tables, events, subscribers, HTTP routes, jobs and alert rules under one name. Its subscribers and jobs join a
//! [`postroom::Relay`] ([`Module::join`]), its routes are mounted on a [`Server`]. Nothing here opens a database, binds
//! an address or reads a configuration: the binary does.

mod alert;
mod body;
mod catalog;
mod declared;
mod events;
mod front;
mod health;
mod host;
mod join;
mod metrics;
mod module;
mod problem;
mod server;

pub use alert::{Alerts, Finding, Messengers, Rule, Watch};
pub use body::Body;
pub use catalog::{Catalogue, Listed, Lock, Verdict};
pub use host::Host;
pub use join::{Topics, join_through};
pub use metrics::Metrics;
pub use module::Module;
pub use problem::Problem;
pub use server::Server;
