//! Guilds: the bot's installations and the owners of the guilds.

pub(crate) mod domain;
pub mod events;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
