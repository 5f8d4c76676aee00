//! The contracts of the ports as tests, and the tools of all tests.
//!
//! One conformance suite per port ([`mod@outbox_suite`], [`mod@destination_suite`], [`mod@broker_suite`]), run by every adapter
//! on the real service; a [`fresh`] store for each test; a private [`server`] to kill; a [`stage`] for modules, with a [`client`]
//! and a [`fake_messenger`]; guides [`walk`]ed; and [`foreign`] clients that read published events. The workload of the suites, the
//! history checker and the broken twins are in [`postroom_proof`].

pub mod broker_suite;
pub mod cable;
pub mod certificate;
pub mod client;
pub mod destination_suite;
pub mod embedded;
pub mod fake_messenger;
pub mod feed;
pub mod foreign;
pub mod fresh;
pub mod gate;
pub mod half_way;
mod home;
pub mod interpreter;
pub mod kafka_server;
pub mod memory_broker;
pub mod outbox_suite;
#[cfg(feature = "kafka")]
pub mod own_topics;
pub mod rabbitmq_server;
pub mod receiver;
pub mod redis_server;
pub mod relay_suite;
pub mod server;
pub mod stage;
pub mod wait;
pub mod walk;

pub use client::Client;
pub use fresh::Fresh;
pub use receiver::Receiver;
