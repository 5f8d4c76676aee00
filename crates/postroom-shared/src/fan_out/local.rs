//! A fan-out within one instance, in memory.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use postroom::Result;

use super::{FanOut, Listener, Message, MessageQueue, check_channels};

/// Publishes messages to the listeners of one instance.
#[derive(Debug, Default)]
pub struct LocalFanOut {
    listeners: Mutex<Vec<Subscription>>,
}

#[derive(Debug)]
struct Subscription {
    channels: HashSet<String>,
    /// Gone when the listener was dropped.
    queue: Weak<MessageQueue>,
}

#[derive(Debug)]
struct LocalListener(Arc<MessageQueue>);

impl LocalFanOut {
    /// A fan-out without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes messages, in this order.
    pub fn publish(&self, messages: &[Message]) {
        // One lock for all of them: two publishers do not mix their messages.
        let mut listeners = self.listeners();
        listeners.retain(|subscription| subscription.push(messages));
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Subscription>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Queues those of the messages that are on its channels. Returns whether it still has a listener.
    fn push(&self, messages: &[Message]) -> bool {
        let Some(queue) = self.queue.upgrade() else {
            return false;
        };
        let own = messages
            .iter()
            .filter(|message| self.channels.contains(&message.channel));
        own.for_each(|message| queue.push(message.clone()));
        true
    }
}

#[async_trait]
impl FanOut for LocalFanOut {
    async fn publish(&self, messages: &[Message]) -> Result<()> {
        self.publish(messages);
        Ok(())
    }

    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>> {
        check_channels(channels)?;
        let queue = Arc::new(MessageQueue::default());
        let mut listeners = self.listeners();
        listeners.retain(|subscription| subscription.queue.strong_count() > 0);
        listeners.push(Subscription {
            channels: channels.iter().map(|&channel| channel.to_owned()).collect(),
            queue: Arc::downgrade(&queue),
        });
        Ok(Box::new(LocalListener(queue)))
    }
}

#[async_trait]
impl Listener for LocalListener {
    async fn next(&mut self) -> Result<Message> {
        self.0.next().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_that_was_dropped_is_forgotten() {
        let fan_out = LocalFanOut::new();
        let listen = async || fan_out.listen(&["a"]).await.unwrap();
        for _ in 0..100 {
            drop(listen().await);
        }
        assert_eq!(fan_out.listeners().len(), 1);
        fan_out.publish(&[Message::new("a", "1")]);
        assert!(fan_out.listeners().is_empty());
    }
}
