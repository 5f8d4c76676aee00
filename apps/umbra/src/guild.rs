//! Guilds: where the bot is installed, and whose they are.

mod domain;
pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
