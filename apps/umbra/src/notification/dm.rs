//! The port to whoever brings direct messages.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// Sends direct messages.
///
/// A message may be sent again when the answer was lost or the process died after it; its nonce is the same then, and the
/// adapter must not show the user two messages with one nonce.
#[async_trait]
pub trait Dm: Debug + Send + Sync {
    /// Sends a message.
    async fn send(&self, message: &Message) -> Sent;
}

/// A message to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The same when it is sent again.
    pub nonce: String,
    /// To whom.
    pub user_id: String,
    /// What it says.
    pub content: String,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The user has it.
    Delivered,
    /// The user takes no messages from us; sending it again would not help.
    Closed,
    /// Too many messages (429): not sent.
    Limited {
        /// How long to wait.
        retry_after: Duration,
    },
    /// Not sent, or nobody knows.
    Failed {
        /// What went wrong.
        says: String,
    },
}
