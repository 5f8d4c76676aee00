//! The suite of destinations over real HTTP, into a receiver that can be taken away; and messengers, to fakes of whom they tell.

#![expect(clippy::unwrap_used, reason = "tests: a panic is how they fail")]

mod messenger;
mod receiver;
mod unavailable;
mod webhook;
