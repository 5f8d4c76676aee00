//! Tests of PostgreSQL alone, on a real server. The contract that all stores share is tested by the conformance suite.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod checker;
mod closing;
mod emit;
mod error;
mod failover;
mod fresh;
mod inbox;
mod inspect;
mod isolation;
mod migration;
mod pooler;
mod prune;
mod pulse;
mod read;
mod restore;
mod schedule;
mod standstill;
