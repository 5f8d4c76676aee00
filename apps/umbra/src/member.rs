//! Members: users who joined through a guild's web page, and members whose roles were restored.

pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
