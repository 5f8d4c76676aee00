//! Postroom's proof: what a port promises, as programs.
//!
//! One conformance suite per port ([`mod@outbox_suite`], [`mod@destination_suite`], [`mod@broker_suite`]), run by every adapter
//! on the real service; a [`history`] checker that counts lost, invented, doubled and disordered events; a randomized
//! [`workload`] to feed it; broken [`twin`]s it must catch; a [`fresh`] store for each test; a private [`server`] or [`process`]
//! to kill; a [`stage`] for modules, with a [`client`] and a [`fake_messenger`]; guides [`walk`]ed; and [`foreign`] clients that
//! read what we published. `postroom verify` is the same workload and the same checker.

pub mod broker_suite;
pub mod cable;
pub mod certificate;
pub mod client;
pub mod destination_suite;
pub mod embedded;
pub mod failures;
pub mod fake_messenger;
pub mod feed;
pub mod foreign;
pub mod fresh;
pub mod gate;
pub mod half_way;
pub mod history;
mod home;
pub mod interpreter;
pub mod kafka_server;
pub mod memory_broker;
pub mod outbox_suite;
#[cfg(feature = "kafka")]
pub mod own_topics;
pub mod process;
pub mod rabbitmq_server;
pub mod receiver;
pub mod redis_server;
pub mod relay_suite;
pub mod server;
pub mod stage;
pub mod twin;
pub mod verify;
pub mod wait;
pub mod walk;
pub mod workload;

pub use client::Client;
pub use fresh::Fresh;
pub use history::{Findings, History, Truth};
pub use receiver::Receiver;
pub use workload::{Change, Workload};
