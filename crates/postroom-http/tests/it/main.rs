//! The suite of destinations over real HTTP, into a receiver that can be taken away.

#![expect(clippy::unwrap_used, reason = "tests: a panic is how they fail")]

mod receiver;
mod webhook;
