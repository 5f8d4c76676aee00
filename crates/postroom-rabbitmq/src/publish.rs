//! Publishes entries to their topics.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, ErrorKind, Mode, Receipt, Topic};

use crate::confirm::{Answer, Outcome};
use crate::message::OutgoingMessage;
use crate::rounds::deliver_in_rounds;
use crate::sender::MessageSender;
use crate::topology::Names;

/// Publishes the events of one route, with one message of each lane in flight.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) sender: Arc<MessageSender>,
    pub(crate) topic: Topic,
    pub(crate) mode: Mode,
    pub(crate) names: Arc<Names>,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        deliver_in_rounds(batch, |round| async move {
            let entries = round.iter().filter_map(|at| batch.entries.get(*at).copied());
            self.publish(entries).await
        })
        .await
    }
}

impl Publisher {
    async fn publish(&self, entries: impl Iterator<Item = &Entry>) -> Vec<Receipt> {
        let mut messages = Vec::new();
        let mut places = Vec::new();
        for entry in entries {
            let topic = self.topic.of(&entry.event.event_type);
            let message = OutgoingMessage::of(entry, &topic, &self.names, &self.mode);
            places.push((
                self.place(entry, topic),
                message.as_ref().err().map(|error| Receipt::Rejected(error.report())),
            ));
            messages.extend(message);
        }
        let mut answers = self.sender.send(&messages).await.into_iter();
        let receipt = |(place, rejected): (String, Option<Receipt>)| {
            rejected.or_else(|| answers.next().map(|answer| receipt(&place, answer)))
        };
        places
            .into_iter()
            .map(receipt)
            .map(|receipt| receipt.unwrap_or(Receipt::Held))
            .collect()
    }

    /// The place that groups join to get this entry, in words.
    fn place(&self, entry: &Entry, topic: String) -> String {
        match self.names.is_by_type() {
            true => format!("{topic} for {}", entry.event.event_type),
            false => topic,
        }
    }
}

fn receipt(topic: &str, answer: Answer) -> Receipt {
    match answer {
        Ok(Outcome::Stored) => Receipt::Delivered,
        Ok(Outcome::Returned) => Receipt::Refused(format!(
            "no group has joined the topic {topic}: RabbitMQ has no queue for the message"
        )),
        Ok(Outcome::Nacked) => Receipt::Refused(format!(
            "a queue of the topic {topic} refused the message: it is full, or too few of its replicas are available"
        )),
        Ok(Outcome::TimedOut) => Receipt::Refused(format!(
            "timeout: a queue of the topic {topic} did not confirm, although others did: too few of its replicas are available"
        )),
        Err(error) if error.kind() == ErrorKind::Unavailable => Receipt::unavailable(error.report()),
        Err(error) => Receipt::Refused(error.report()),
    }
}
