//! Tickets: short-lived secrets that are accepted once, on any instance.

mod local;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use sha2::{Digest as _, Sha256};

pub use local::LocalTickets;

/// Keeps tickets until they are redeemed.
///
/// The contract, which `postroom_testkit::ticket_suite` checks:
///
/// 1. A ticket is redeemed at most once, whichever instances try at the same time. It then answers what was deposited with it.
/// 2. A ticket that is unknown, spent or expired answers `None`, whatever text it is.
/// 3. Two tickets are never the same, also with the same content. The state holds a hash of the ticket, not the ticket.
#[async_trait]
pub trait Tickets: fmt::Debug + Send + Sync {
    /// Makes a ticket for this content, valid for this time. It has letters, digits and `_` only, so it can be in an address.
    async fn issue(&self, content: &str, lifetime: Duration) -> Result<String>;

    /// The content of a ticket; it is spent. If the connection is lost during the call, it may be spent and answer an error or
    /// `None`.
    async fn redeem(&self, ticket: &str) -> Result<Option<String>>;
}

/// A new ticket: 256 random bits behind a readable prefix.
pub fn random() -> String {
    let bytes: [u8; 32] = rand::random();
    format!("ticket_{}", hex(&bytes))
}

/// The SHA-256 of a ticket in hexadecimal digits, as the state keeps it.
pub fn hash(ticket: &str) -> String {
    hex(&Sha256::digest(ticket.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
