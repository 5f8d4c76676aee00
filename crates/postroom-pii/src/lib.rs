#![doc = include_str!("../README.md")]

mod detect;
mod finding;
mod firewall;
mod hints;
mod invalid;
mod key_name;
mod keys;
mod kind;
mod rules;
mod text;
mod view;

pub use firewall::Firewall;
pub use invalid::Invalid;
pub use keys::Keys;
pub use kind::{Cleaned, Kind, Removed};
pub use rules::{ClientMode, KeywordMode, Rules};
