//! A hub behind a real server, with a journal in memory and with clients on raw connections.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests and their harness: what goes wrong fails the test"
)]

mod alone;
mod browser;
mod drain;
mod end;
mod eviction;
mod faulty;
mod memory_journal;
mod repair;
mod seam;
mod slow;
mod stand;
mod stream;
mod ticket;
mod unavailable;
mod websocket;
