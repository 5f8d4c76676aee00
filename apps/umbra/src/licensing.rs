//! Licences: the plan that a guild may use, and its end. All changes follow from events of other contexts.

mod domain;
pub mod events;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
