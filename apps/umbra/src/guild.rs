//! Guilds: where the bot is installed, and whose they are.

pub(crate) mod domain;
pub mod events;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
