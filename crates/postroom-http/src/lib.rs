#![doc = include_str!("../README.md")]

mod client;
mod endpoint;
mod messenger;
mod response;
mod signature;
mod webhook;

pub use endpoint::{Answer, Endpoint, gzip};
pub use messenger::{PagerDuty, Slack};
pub use signature::{Secret, signed_headers};
pub use webhook::Webhook;
