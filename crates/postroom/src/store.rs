//! The port to a store, and everything that is the same code on every database: transactions, tables, clock, migrations.

mod begun;
pub(crate) mod bounded;
pub mod db_clock;
pub(crate) mod fault;
pub(crate) mod inbox;
pub mod migration;
pub(crate) mod outbox;
#[cfg(any(feature = "postgres", feature = "mysql", test))]
pub mod reconnect;
pub(crate) mod setting;
pub mod table;
pub(crate) mod task;
pub(crate) mod tx;
