//! What Postroom posts over HTTP: each event as a CloudEvent, signed as Standard Webhooks say; alerts to Slack and PagerDuty.

mod answer;
mod client;
mod messenger;
mod signature;
mod webhook;

pub use messenger::{PagerDuty, Slack};
pub use signature::Secret;
pub use webhook::Webhook;
