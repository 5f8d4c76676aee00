//! The bounded queue between a fan-out and one of its listeners.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use postroom::{Error, ErrorKind, Result};
use tokio::sync::Notify;

use super::Message;

/// Messages that wait for a listener.
const MESSAGES_MAX: usize = 16_384;
/// Their channels and bodies in bytes.
const BYTES_MAX: usize = 16 << 20;

/// A bounded queue for one listener. Every implementation of [`super::FanOut`] puts messages into it without waiting. After it has
/// failed, it is empty and takes nothing more.
#[derive(Debug)]
pub struct MessageQueue {
    state: Mutex<State>,
    arrived: Notify,
    messages_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Why it has failed.
    failure: Option<String>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            messages,
            bytes,
            failure,
        } = self;
        f.debug_struct("State")
            .field("messages", &messages.len())
            .field("bytes", bytes)
            .field("failure", failure)
            .finish()
    }
}

impl Default for MessageQueue {
    fn default() -> Self {
        Self::bounded(MESSAGES_MAX, BYTES_MAX)
    }
}

impl MessageQueue {
    /// A queue with bounds of its own: messages, and bytes of their channels and bodies.
    pub fn bounded(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            messages_max,
            bytes_max,
        }
    }

    /// Adds a message. If it exceeds a bound, the queue fails.
    pub fn push(&self, message: Message) {
        let mut state = self.state();
        if state.failure.is_some() {
            return;
        }
        state.bytes += size(&message);
        state.messages.push_back(message);
        if state.messages.len() > self.messages_max || state.bytes > self.bytes_max {
            let says = format!(
                "the listener is too slow: more than {} messages or {} bytes waited for it",
                self.messages_max, self.bytes_max
            );
            state.fail(says);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Fails the queue, if it has not failed before. The messages that wait are dropped: a listener that knows that it has lost one
    /// reads all of them from the database.
    pub fn fail(&self, says: impl Into<String>) {
        self.state().fail(says.into());
        self.arrived.notify_one();
    }

    /// The next message, as soon as there is one. Cancel safe. For one caller at a time.
    pub async fn next(&self) -> Result<Message> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Result<Option<Message>> {
        let mut state = self.state();
        if let Some(says) = &state.failure {
            return Err(Error::new(ErrorKind::Unavailable, says.clone()));
        }
        let message = state.messages.pop_front();
        state.bytes -= message.as_ref().map_or(0, size);
        Ok(message)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fail(&mut self, says: String) {
        drop(mem::take(&mut self.messages));
        self.bytes = 0;
        self.failure.get_or_insert(says);
    }
}

fn size(message: &Message) -> usize {
    message.channel.len() + message.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Message {
        Message::new("channel", body)
    }

    #[tokio::test]
    async fn messages_come_in_the_order_in_which_they_were_pushed() {
        let queue = MessageQueue::default();
        queue.push(message("first"));
        queue.push(message("second"));
        assert_eq!(queue.next().await.unwrap(), message("first"));
        assert_eq!(queue.next().await.unwrap(), message("second"));
        assert_eq!(queue.state().bytes, 0);
    }

    #[tokio::test]
    async fn a_queue_that_exceeds_a_bound_is_empty_and_fails_for_good() {
        let check = async |queue: MessageQueue| {
            queue.push(message("1"));
            queue.push(message("2"));
            assert_eq!(queue.next().await.unwrap(), message("1"), "{queue:?}");
            queue.push(message("3"));
            queue.push(message("4"));
            queue.push(message("5"));
            for _ in 0..2 {
                let error = queue.next().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                assert!(error.report().contains("too slow"), "{error}");
            }
            let state = queue.state();
            assert_eq!((state.messages.capacity(), state.bytes), (0, 0));
        };
        check(MessageQueue::bounded(2, 1 << 20)).await;
        check(MessageQueue::bounded(100, 2 * size(&message("1")))).await;
    }

    #[tokio::test]
    async fn a_waiting_call_gets_the_failure() {
        let queue = MessageQueue::default();
        let fails = async {
            tokio::task::yield_now().await;
            queue.fail("gone");
        };
        let (outcome, ()) = tokio::join!(queue.next(), fails);
        assert_eq!(outcome.unwrap_err().report(), "gone");
    }
}
