//! Tests of the ledger over HTTP: on every database, directly from the outbox and through Kafka.

mod alert;
mod books;
mod client;
mod contention;
mod crash;
mod guide;
mod idempotency;
mod kafka;
mod limit;
mod migrate;
mod money;
mod projection;
mod rules;
mod state;
mod world;
