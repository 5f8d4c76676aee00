//! The built binary, as people use it: on a store in a folder of its own, with real signals and a real port.

mod bench;
mod commands;
mod config;
mod daemon;
mod dead_letters;
mod fault;
mod harness;
