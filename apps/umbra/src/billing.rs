//! Billing: cards, subscriptions and their charges.

pub(crate) mod attempt;
pub mod card;
pub(crate) mod charge;
pub(crate) mod domain;
pub mod events;
mod fake_card;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod tables;

pub use domain::Pace;
pub use fake_card::{FakeCards, Play};
