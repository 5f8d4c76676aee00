//! Recovery: snapshots of guilds, restoring them, and what the guard against raids saw and did.

mod domain;
pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
