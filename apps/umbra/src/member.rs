//! Members: who came through a guild's page, and who got their roles back.

pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
