//! The port for direct messages.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// Sends direct messages.
///
/// A message may be sent again when the answer was lost or the process died after sending. It has the same nonce then, and
/// the adapter must not show the user two messages with one nonce.
#[async_trait]
pub trait Dm: Debug + Send + Sync {
    /// Sends a message.
    async fn send(&self, message: &Message) -> Sent;
}

/// A message to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Unique per message; a repeated message has the same nonce.
    pub nonce: String,
    /// The recipient.
    pub user_id: String,
    /// The text.
    pub content: String,
}

/// The result of sending a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message was delivered.
    Delivered,
    /// The user accepts no messages from us. Sending it again would not help.
    Closed,
    /// The rate limit was reached (429); the message was not sent.
    Limited {
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The message was not sent, or the outcome is unknown.
    Failed {
        /// The error message.
        says: String,
    },
}
