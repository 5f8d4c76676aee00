#![doc = include_str!("../README.md")]

pub mod failures;
pub mod history;
pub mod occupant;
pub mod process;
pub mod report;
pub mod trial;
pub mod twin;
pub mod verify;
pub mod workload;

pub use history::{Findings, History, Truth};
pub use report::Report;
pub use trial::Trial;
pub use workload::{Change, Workload};
