//! The suite on all three stores, and the proof that it can fail.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests: a panic is how they fail, and what they counted is worth reading"
)]

mod aborted;
mod broker;
mod consumed;
mod failure;
mod fake_posthog;
mod fault;
mod form;
mod guide;
mod hooked;
mod listing;
mod looking;
mod memory;
mod open_transaction;
mod privilege;
mod relay;
mod server;
mod shared_fault;
mod silent;
mod suite;
mod tail;
mod tls;
mod twin;
mod unreadable;
