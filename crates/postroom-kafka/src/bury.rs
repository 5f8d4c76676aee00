//! Copies dead letters to the topic `{topic}.DLT`, the convention of Kafka tools.

use std::borrow::Cow;
use std::iter;
use std::sync::Arc;

use postroom::{Error, ErrorKind, Letter, Result};
use rdkafka::error::RDKafkaErrorCode as Code;

use crate::client::{Shared, missing_topic_message};
use crate::error::{code, failed};
use crate::record::Record;

/// The header of a copy whose value was omitted because it exceeds the topic's size limit.
const OMITTED: (&str, &str) = ("postroom-body", "omitted: too large for this topic");

/// Sends a copy of a dead letter and waits until it is durable.
pub(crate) async fn bury(shared: &Arc<Shared>, letter: &Letter) -> Result<()> {
    let mut record = Record::of_letter(letter);
    let partitions = shared.partitions(iter::once(record.topic.as_str())).await?;
    if partitions.get(&record.topic) == Some(&0) {
        return Err(Error::new(ErrorKind::NotFound, missing_topic_message(&record.topic)));
    }
    let mut sent = shared.send(&record).await;
    if sent.as_ref().err().and_then(code) == Some(Code::MessageSizeTooLarge) {
        record.value = Cow::default();
        record.headers.push((OMITTED.0.into(), OMITTED.1.into()));
        sent = shared.send(&record).await;
    }
    sent.map_err(|source| {
        shared.forget([&record.topic].into_iter());
        failed(format!("copy a dead letter to {}", record.topic), source)
    })
}
