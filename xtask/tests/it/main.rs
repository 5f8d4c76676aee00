//! Tests of files and instructions that people use and no compiler checks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong fails the test")]

mod compose;
mod stranger;
