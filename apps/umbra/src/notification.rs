//! Notification: direct messages to users on Discord.

pub mod dm;
mod domain;
mod fake_dm;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;

pub use fake_dm::FakeDm;
