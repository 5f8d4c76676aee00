//! Postroom's destinations over HTTP: each event is posted as a CloudEvent, signed as Standard Webhooks say.

mod answer;
mod signature;
mod webhook;

pub use signature::Secret;
pub use webhook::Webhook;
