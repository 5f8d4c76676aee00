#![doc = include_str!("../README.md")]

mod broker;
mod store;

pub use broker::{BrokerAddress, BrokerKind, BrokerUrl};
pub use store::{PLATFORM, StoreKind, StoreUrl};
