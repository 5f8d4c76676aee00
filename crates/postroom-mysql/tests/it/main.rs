//! Tests of this store alone, on a real server. The contract that all stores share is tested by `postroom-testkit`.

mod closing;
mod connect;
mod emit;
mod error;
mod fresh;
mod input;
mod inspect;
mod migrate;
mod order;
mod procedure;
mod random;
mod retention;
mod schedule;
mod sequencer;
