//! Tools of the runs that need an operating system, but no database.

#![expect(clippy::unwrap_used, reason = "tests: a panic is how they fail")]

mod process;
