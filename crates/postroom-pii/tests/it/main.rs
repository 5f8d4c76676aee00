//! The firewall as its users see it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod alone;
mod corpus;
mod document;
mod limit;
mod property;
mod text;
mod trace;

use postroom_pii::{Firewall, Keys, KeywordMode, Rules};

const SECRET: &[u8] = b"an invented secret that only tests use";

fn keys() -> Keys {
    Keys::new("k1", SECRET).unwrap()
}

/// All defaults.
fn firewall() -> Firewall {
    Firewall::new(Rules::default(), keys()).unwrap()
}

/// Search words stay as they are.
fn plain_firewall() -> Firewall {
    Firewall::new(Rules::default().keywords(KeywordMode::Plain), keys()).unwrap()
}
