//! The suite of destinations over real HTTP, into a receiver that can be taken away.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is how they fail"
)]

mod receiver;
mod webhook;
