//! Fan-out: small messages from one instance to all instances that are connected now.

mod local;
mod queue;

use std::fmt;

use async_trait::async_trait;
use postroom::{Error, Result};

pub use local::LocalFanOut;
pub use queue::MessageQueue;

/// Publishes messages to every instance.
///
/// The contract, which `postroom_testkit::fan_out_suite` checks:
///
/// 1. A listener gets every message that is published on its channels after [`FanOut::listen`] has returned, also those of its own
///    instance, in the order in which one publisher published them, as long as its connection lives.
/// 2. Nothing is kept: a message without a listener is gone. A listener that has lost messages says so: its next call fails, and so
///    does every later one. So nothing is lost without an error, and the reader repairs the rest from the database.
/// 3. A connection that has become silent fails a waiting call of its listener within 15 seconds.
/// 4. A listener that is slow costs a bounded amount of memory: beyond it, its messages are dropped and its next call fails. It
///    delays neither publishers nor other listeners.
/// 5. [`Listener::next`] is cancel safe: a call that is dropped loses no message.
/// 6. A channel is any text that is not empty. A subscription to no channel is refused.
#[async_trait]
pub trait FanOut: fmt::Debug + Send + Sync {
    /// Publishes messages, in this order. After an error, some or all of them may have been published.
    async fn publish(&self, messages: &[Message]) -> Result<()>;

    /// Listens on these channels. The subscription is in force when it returns.
    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>>;
}

/// Receives the messages of one subscription. After an error it is of no use; listen again.
#[async_trait]
pub trait Listener: fmt::Debug + Send {
    /// The next message. Cancel safe: a call that is dropped loses no message.
    async fn next(&mut self) -> Result<Message>;
}

/// A message on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: String,
    /// Its content.
    pub body: Vec<u8>,
}

impl Message {
    /// A message on a channel.
    pub fn new(channel: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            channel: channel.into(),
            body: body.into(),
        }
    }
}

/// Refuses what no implementation can listen on.
pub fn check_channels(channels: &[&str]) -> Result<()> {
    match channels.is_empty() || channels.contains(&"") {
        true => Err(Error::invalid("listen on at least one channel, each with a name")),
        false => Ok(()),
    }
}
