//! Sends events and alerts over HTTP: events as CloudEvents with Standard Webhooks signatures, alerts to Slack and PagerDuty.

mod client;
mod messenger;
mod response;
mod signature;
mod webhook;

pub use messenger::{PagerDuty, Slack};
pub use signature::Secret;
pub use webhook::Webhook;
