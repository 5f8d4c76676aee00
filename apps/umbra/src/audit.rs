//! Audit: a log with one row per event. Sensitive fields are masked.

mod domain;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
