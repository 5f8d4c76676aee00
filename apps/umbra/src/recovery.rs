//! Recovery: snapshots of guilds, their restores, and the reports of the raid guard.

mod domain;
pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
