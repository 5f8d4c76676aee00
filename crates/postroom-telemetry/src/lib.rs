#![doc = include_str!("../README.md")]

pub mod log;
mod traces;

pub use log::LogFormat;
pub use traces::Traces;
