//! Licences: what a guild may use, and until when. Everything here follows from events of others.

mod domain;
pub mod events;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
