//! Identity: who our users are, and their sessions.

pub mod events;
mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
