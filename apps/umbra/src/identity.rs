//! Identity: users and their sessions.

pub mod events;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
