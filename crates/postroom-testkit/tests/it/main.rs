//! The suite on all three stores, and the proof that it can fail.

mod failure;
mod fault;
mod process;
mod relay;
mod server;
mod suite;
mod twin;
