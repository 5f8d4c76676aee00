//! Audit: what happened, each event once, and nothing in it that nobody should read.

mod domain;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;
