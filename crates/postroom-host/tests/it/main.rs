//! Modules on a host, on every database.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests and their harness: what goes wrong fails the test"
)]

mod access;
mod alert;
mod carrier;
mod platform;
mod screen;
mod watched;
