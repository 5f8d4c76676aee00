//! The destination suite over HTTP with a receiver that can be stopped, and messengers with fake servers.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod messenger;
mod receiver;
mod unavailable;
mod webhook;
