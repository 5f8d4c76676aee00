//! Sends messages and waits for publisher confirms. A confirmed message is on disk in a majority of each queue's replicas.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use postroom::{Error, ErrorKind, Result};

use crate::confirm::{Answer, Confirms};
use crate::connect::Connector;
use crate::error::{RESPONSE_TIMEOUT, with_timeout};
use crate::message::OutgoingMessage;

/// Maximum number of idle channels.
const IDLE_MAX: usize = 16;

/// Sends messages over a pool of channels with publisher confirms.
#[derive(Debug)]
pub(crate) struct MessageSender {
    connector: Connector,
    /// A channel serves one call at a time; otherwise returned messages could not be matched to their call.
    idle: Mutex<Vec<Channel>>,
    /// Exchanges that this sender has declared.
    exchanges: Mutex<HashSet<ShortString>>,
}

impl MessageSender {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            connector,
            idle: Mutex::default(),
            exchanges: Mutex::default(),
        }
    }

    /// Sends all messages at once and returns one answer each. Declares missing exchanges.
    pub(crate) async fn send(&self, messages: &[OutgoingMessage]) -> Vec<Answer> {
        if messages.is_empty() {
            return Vec::new();
        }
        let mut answers = match self.attempt(messages).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(Arc::new(error)); messages.len()],
        };
        for (message, answer) in messages.iter().zip(&mut answers) {
            // A refused message closes the channel and fails all messages in flight on it: send each alone to find the refused one.
            if answer
                .as_ref()
                .is_err_and(|error| error.kind() != ErrorKind::Unavailable)
            {
                *answer = self.send_alone(message).await;
            }
        }
        answers
    }

    /// Its connection, unless RabbitMQ has blocked publishing.
    pub(crate) fn connector(&self) -> Result<&Connector> {
        if self.connector.is_blocked() {
            return Err(blocked());
        }
        Ok(&self.connector)
    }

    async fn send_alone(&self, message: &OutgoingMessage) -> Answer {
        match self.attempt_alone(message).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                lock(&self.exchanges).remove(&message.exchange);
                self.attempt_alone(message).await
            }
            answer => answer,
        }
    }

    async fn attempt_alone(&self, message: &OutgoingMessage) -> Answer {
        let answers = self.attempt(std::slice::from_ref(message)).await?;
        answers.into_iter().next().unwrap_or_else(|| Err(Arc::new(timed_out())))
    }

    async fn attempt(&self, messages: &[OutgoingMessage]) -> Result<Vec<Answer>> {
        let channel = self.acquire_channel().await?;
        self.declare(&channel, messages).await?;
        let confirms = Confirms::of(&channel, messages).await;
        if confirms.is_complete() {
            self.release_channel(channel);
        } else if confirms.is_empty() || self.connector.is_blocked() {
            return Err(timed_out());
        }
        Ok(confirms.outcomes(messages))
    }

    async fn acquire_channel(&self) -> Result<Channel> {
        let connector = self.connector()?;
        if let Some(channel) = self.idle_channel() {
            return Ok(channel);
        }
        let channel = connector.channel().await?;
        let confirming = channel.confirm_select(ConfirmSelectOptions::default());
        with_timeout(|| "enable publisher confirms".to_owned(), confirming).await?;
        Ok(channel)
    }

    fn idle_channel(&self) -> Option<Channel> {
        let mut idle = lock(&self.idle);
        idle.retain(|channel| channel.status().connected());
        idle.pop()
    }

    fn release_channel(&self, channel: Channel) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(channel);
        }
    }

    async fn declare(&self, channel: &Channel, messages: &[OutgoingMessage]) -> Result<()> {
        let missing: HashSet<ShortString> = {
            let known = lock(&self.exchanges);
            let exchanges = messages.iter().map(|message| &message.exchange);
            let is_missing = |name: &&ShortString| !name.as_str().is_empty() && !known.contains(*name);
            exchanges.filter(is_missing).cloned().collect()
        };
        for exchange in missing {
            declare_exchange(channel, &exchange).await?;
            lock(&self.exchanges).insert(exchange);
        }
        Ok(())
    }
}

/// Declares the exchange of a topic.
pub(crate) async fn declare_exchange(channel: &Channel, topic: &ShortString) -> Result<()> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declaring = channel.exchange_declare(topic.clone(), ExchangeKind::Topic, durable, FieldTable::default());
    let doing = || {
        format!(
            "declare the durable topic exchange {topic} (an existing exchange may differ: delete it, or choose another topic)"
        )
    };
    with_timeout(doing, declaring).await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn timed_out() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("publish to RabbitMQ: timeout: no confirm within {RESPONSE_TIMEOUT:?}"),
    )
}

fn blocked() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "publish to RabbitMQ: the broker blocks publishers, because it is short of memory or disk",
    )
}
