//! The built binary, as people use it: on a store in a folder of its own, with real signals and a real port.

mod access;
mod alert;
mod bench;
mod bench_broker;
mod broker;
mod broker_fault;
mod catalog;
mod commands;
mod config;
mod daemon;
mod dead_letters;
mod doctor;
mod events;
mod failures;
mod fault;
mod harness;
mod looking;
mod metrics;
mod pii;
mod profile;
mod standstill;
mod telemetry;
mod tls;
mod unreachable;
mod verify;
