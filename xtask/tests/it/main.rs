//! What no compiler reads, but people run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong fails the test")]

mod compose;
mod stranger;
