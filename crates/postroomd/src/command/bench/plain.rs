//! The client of a broker alone: it sends the messages that the relay would send, with the same promises, and nothing else.
//! No database, no order to restore after a failure: a relay cannot be faster.

mod kafka;
mod rabbitmq;
mod redis;

use std::time::Duration;

use anyhow::{Context as _, Result};
use postroom::{Entry, Envelope, Event, clock};

use crate::broker::{BrokerAddress, BrokerKind};
use crate::command::bench::paid;

/// Different messages there are; sent in turn.
const MESSAGES: usize = 1_000;

/// A client of each broker.
#[derive(Debug)]
pub(in crate::command) enum Plain {
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
    /// Connects, for messages to this topic.
    pub(in crate::command) async fn connect(address: &BrokerAddress, topic: &str) -> Result<Self> {
        let url = address.secret();
        let connected = match address.kind() {
            BrokerKind::Kafka => kafka::Client::connect(url, topic).map(Self::Kafka),
            BrokerKind::RabbitMq => rabbitmq::Client::connect(url, topic).await.map(Self::RabbitMq),
            BrokerKind::Redis => redis::Client::connect(url, topic).await.map(Self::Redis),
        };
        connected.with_context(|| format!("connect to {address}"))
    }

    /// Sends so many messages and waits until the broker has confirmed each; answers how long that took.
    pub(super) async fn send(&self, count: usize) -> Result<Duration> {
        match self {
            Self::Kafka(client) => client.send(messages("ce_")?, count).await,
            Self::RabbitMq(client) => client.send(&messages("cloudEvents:")?, count).await,
            Self::Redis(client) => client.send(&messages("ce_")?, count).await,
        }
    }

    /// How many messages the topic holds.
    pub(super) async fn count(&self) -> Result<u64> {
        match self {
            Self::Kafka(client) => client.count().await,
            Self::RabbitMq(client) => client.count().await,
            Self::Redis(client) => client.count().await,
        }
    }

    /// Removes the topic and all it holds.
    pub(in crate::command) async fn remove(&self) -> Result<()> {
        match self {
            Self::Kafka(client) => client.remove().await,
            Self::RabbitMq(client) => client.remove().await,
            Self::Redis(client) => client.remove().await,
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
