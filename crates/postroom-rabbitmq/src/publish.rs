//! Publishes entries, each to its topic.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, ErrorKind, Mode, Receipt, Topic};

use crate::confirm::{Answer, Outcome};
use crate::outlet::Outlet;
use crate::parcel::Parcel;
use crate::wave::in_waves;

/// A route's way to RabbitMQ. Of each lane one message at a time is on its way.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) topic: Topic,
    pub(crate) mode: Mode,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        in_waves(batch, |wave| async move {
            let entries = wave.iter().filter_map(|at| batch.entries.get(*at).copied());
            self.publish(entries).await
        })
        .await
    }
}

impl Publisher {
    async fn publish(&self, entries: impl Iterator<Item = &Entry>) -> Vec<Receipt> {
        let mut parcels = Vec::new();
        let mut topics = Vec::new();
        for entry in entries {
            let topic = self.topic.of(&entry.event.event_type);
            let parcel = Parcel::of(entry, &topic, self.mode);
            topics.push((
                topic,
                parcel.as_ref().err().map(|error| Receipt::Rejected(error.report())),
            ));
            parcels.extend(parcel);
        }
        let mut answers = self.outlet.send(&parcels).await.into_iter();
        let receipt = |(topic, rejected): (String, Option<Receipt>)| {
            rejected.or_else(|| answers.next().map(|answer| receipt(&topic, answer)))
        };
        topics
            .into_iter()
            .map(receipt)
            .map(|receipt| receipt.unwrap_or(Receipt::Held))
            .collect()
    }
}

fn receipt(topic: &str, answer: Answer) -> Receipt {
    match answer {
        Ok(Outcome::Stored) => Receipt::Delivered,
        Ok(Outcome::Returned) => Receipt::Refused(format!(
            "no group has joined the topic {topic}: RabbitMQ has no queue to keep the message in"
        )),
        Ok(Outcome::Declined) => Receipt::Refused(format!(
            "a queue of the topic {topic} did not take the message: it is full, or too few of its replicas are there"
        )),
        Ok(Outcome::Late) => Receipt::Refused(format!(
            "a queue of the topic {topic} has not answered in time, although others have: too few of its replicas are there"
        )),
        Err(error) if error.kind() == ErrorKind::Unavailable => Receipt::Unavailable(error.report()),
        Err(error) => Receipt::Refused(error.report()),
    }
}
