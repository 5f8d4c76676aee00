//! lapin alone, with confirms.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, PublisherConfirm};

use super::Message;

/// Messages under way and not confirmed.
const UNDER_WAY_MAX: usize = 1_000;
/// Kept on disk.
const PERSISTENT: u8 = 2;
/// Routing keys there are.
const SLOTS: u32 = 64;

#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
    topic: String,
    queue: String,
}

impl Client {
    pub(super) async fn connect(url: &str, topic: &str) -> Result<Self> {
        Ok(Self {
            connection: Connection::connect(url, ConnectionProperties::default()).await?,
            topic: topic.to_owned(),
            queue: format!("{topic}:{topic}:0"), // the one queue of the group of that name
        })
    }

    pub(super) async fn send(&self, messages: &[Message], count: usize) -> Result<Duration> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let parcels: Vec<_> = messages.iter().map(parcel).collect();
        let begun = Instant::now();
        let mut under_way = VecDeque::with_capacity(UNDER_WAY_MAX);
        for (slot, properties, body) in parcels.iter().cycle().take(count) {
            if under_way.len() == UNDER_WAY_MAX {
                check(under_way.pop_front()).await?;
            }
            let (topic, slot) = (self.topic.as_str().into(), slot.clone());
            let publishing = channel.basic_publish(topic, slot, mandatory(), body, properties.clone());
            under_way.push_back(publishing.await?);
        }
        while let Some(oldest) = under_way.pop_front() {
            check(Some(oldest)).await?;
        }
        Ok(begun.elapsed())
    }

    pub(super) async fn count(&self) -> Result<u64> {
        let channel = self.connection.create_channel().await?;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let declaring = channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default());
        Ok(u64::from(declaring.await?.message_count()))
    }

    pub(super) async fn remove(&self) -> Result<()> {
        let channel = self.connection.create_channel().await?;
        let queue = self.queue.as_str().into();
        channel.queue_delete(queue, QueueDeleteOptions::default()).await?;
        let exchange = self.topic.as_str().into();
        channel
            .exchange_delete(exchange, ExchangeDeleteOptions::default())
            .await?;
        Ok(())
    }
}

/// The routing key, the properties and the body of a message.
fn parcel(message: &Message) -> (ShortString, BasicProperties, &[u8]) {
    let Message { event, attributes, .. } = message;
    let mut headers = FieldTable::default();
    for (name, value) in attributes {
        headers.insert(
            name.as_str().into(),
            AMQPValue::LongString(LongString::from(value.as_str())),
        );
    }
    let properties = BasicProperties::default()
        .with_message_id(event.id.to_string().into())
        .with_type(event.event_type.as_str().into())
        .with_timestamp(u64::try_from(event.occurred_at.unix_timestamp()).unwrap_or_default())
        .with_delivery_mode(PERSISTENT)
        .with_content_type(message.content_type.as_str().into())
        .with_headers(headers);
    let slot = format!("slot.{}", event.key().shard(SLOTS));
    (slot.into(), properties, &message.body)
}

fn mandatory() -> BasicPublishOptions {
    BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    }
}

async fn check(confirm: Option<PublisherConfirm>) -> Result<()> {
    if let Some(confirm) = confirm {
        let answer = confirm.await?;
        ensure!(
            matches!(answer, Confirmation::Ack(None)),
            "RabbitMQ answered {answer:?} instead of an ack"
        );
    }
    Ok(())
}
