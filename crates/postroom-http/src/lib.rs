#![doc = include_str!("../README.md")]

mod client;
mod messenger;
mod response;
mod signature;
mod webhook;

pub use messenger::{PagerDuty, Slack};
pub use signature::Secret;
pub use webhook::Webhook;
