//! The client of a broker alone: it sends the messages that the relay would send, with the same promises, and nothing else.
//! No database, no order to restore after a failure: a relay cannot be faster.

mod kafka;
mod rabbitmq;
mod redis;

use std::time::Duration;

use anyhow::Result;
use postroom::{Entry, Envelope, Event, clock};

use crate::paid;

/// Different messages there are; sent in turn.
const MESSAGES: usize = 1_000;

/// The client library of a broker, without Postroom, for one topic.
#[derive(Debug)]
pub(super) struct Plain(Client);

#[derive(Debug)]
enum Client {
    Kafka(kafka::Client),
    RabbitMq(rabbitmq::Client),
    Redis(redis::Client),
}

/// An event as it is sent.
#[derive(Clone, Debug)]
struct Message {
    event: Event,
    /// As they are spelled on the wire, without the media type.
    attributes: Vec<(String, String)>,
    content_type: String,
    body: Vec<u8>,
}

impl Plain {
    /// librdkafka, with an address such as `kafka://host:9092`. Connects when it is used.
    pub(super) fn kafka(url: &str, topic: &str) -> Self {
        Self(Client::Kafka(kafka::Client::new(url, topic)))
    }

    /// Connects lapin, with an address such as `amqp://user@host/%2f`.
    pub(super) async fn rabbitmq(url: &str, topic: &str) -> Result<Self> {
        Ok(Self(Client::RabbitMq(rabbitmq::Client::connect(url, topic).await?)))
    }

    /// Connects the redis crate, with an address such as `redis://host`.
    pub(super) async fn redis(url: &str, topic: &str) -> Result<Self> {
        Ok(Self(Client::Redis(redis::Client::connect(url, topic).await?)))
    }

    /// Whether the broker drops messages that no group waits for.
    pub(super) fn needs_group(&self) -> bool {
        matches!(self.0, Client::RabbitMq(_))
    }

    /// Sends so many messages and waits until the broker has confirmed each; answers how long that took.
    pub(super) async fn send(&self, count: usize) -> Result<Duration> {
        match &self.0 {
            Client::Kafka(client) => client.send(messages("ce_")?, count).await,
            Client::RabbitMq(client) => client.send(&messages("cloudEvents:")?, count).await,
            Client::Redis(client) => client.send(&messages("ce_")?, count).await,
        }
    }

    /// How many messages the topic holds.
    pub(super) async fn count(&self) -> Result<u64> {
        match &self.0 {
            Client::Kafka(client) => client.count().await,
            Client::RabbitMq(client) => client.count().await,
            Client::Redis(client) => client.count().await,
        }
    }

    /// Removes the topic and all it holds.
    pub(super) async fn remove(&self) -> Result<()> {
        match &self.0 {
            Client::Kafka(client) => client.remove().await,
            Client::RabbitMq(client) => client.remove().await,
            Client::Redis(client) => client.remove().await,
        }
    }
}

fn messages(prefix: &str) -> Result<Vec<Message>> {
    let events = paid::events(0..MESSAGES)?;
    let entry = |(id, event)| Entry {
        id,
        event,
        created_at: clock::now(),
    };
    let entries = (1..).zip(events).map(entry);
    Ok(entries.map(|entry| Message::of(entry, prefix)).collect())
}

impl Message {
    fn of(entry: Entry, prefix: &str) -> Self {
        let Envelope { mut attributes, data } = Envelope::of(&entry);
        let content_type = attributes.remove("datacontenttype").unwrap_or_default();
        let spell = |(name, value)| (format!("{prefix}{name}"), value);
        Self {
            event: entry.event,
            attributes: attributes.into_iter().map(spell).collect(),
            content_type,
            body: data.get().as_bytes().to_vec(),
        }
    }
}
