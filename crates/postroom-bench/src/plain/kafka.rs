//! librdkafka alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::task::spawn_blocking;

use super::Message;

/// No step takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// While the producer's queue is full.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(super) struct Client {
    settings: ClientConfig,
    topic: String,
}

/// Counts what was confirmed.
#[derive(Clone, Debug, Default)]
struct Confirmed(Arc<AtomicUsize>);

impl ClientContext for Confirmed {}

impl ProducerContext for Confirmed {
    type DeliveryOpaque = ();

    fn delivery(&self, answer: &DeliveryResult<'_>, (): ()) {
        self.0.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
    }
}

impl Client {
    pub(super) fn new(url: &str, topic: &str) -> Self {
        let servers = url.trim_start_matches("kafka://").trim_end_matches('/');
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", servers)
            .set("socket.nagle.disable", "true");
        let topic = topic.to_owned();
        Self { settings, topic }
    }

    pub(super) async fn send(&self, messages: Vec<Message>, count: usize) -> Result<Duration> {
        let client = self.clone();
        spawn_blocking(move || client.send_all(&messages, count)).await?
    }

    /// With the promises of our own producer; how long it waits for more is librdkafka's choice.
    fn send_all(&self, messages: &[Message], count: usize) -> Result<Duration> {
        let confirmed = Confirmed::default();
        let producer: ThreadedProducer<Confirmed> = self
            .settings
            .clone()
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .create_with_context(confirmed.clone())?;
        // Connections and what is known of the topic are there before the time runs.
        producer.client().fetch_metadata(Some(&self.topic), ANSWER_MAX)?;
        let begun = Instant::now();
        for message in messages.iter().cycle().take(count) {
            self.enqueue(&producer, message)?;
        }
        producer.flush(ANSWER_MAX)?;
        let (took, confirmed) = (begun.elapsed(), confirmed.0.load(Ordering::Relaxed));
        ensure!(confirmed == count, "Kafka confirmed {confirmed} of {count} messages");
        Ok(took)
    }

    #[expect(clippy::disallowed_methods, reason = "it has a thread of its own")]
    fn enqueue(&self, producer: &ThreadedProducer<Confirmed>, message: &Message) -> Result<()> {
        let mut record = self.record(message);
        while let Err((error, back)) = producer.send(record) {
            let is_full = matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
            ensure!(is_full, "send to Kafka: {error}");
            std::thread::sleep(PAUSE);
            record = back;
        }
        Ok(())
    }

    fn record<'a>(&'a self, message: &'a Message) -> BaseRecord<'a, str, [u8]> {
        let header = |key, value| Header {
            key,
            value: Some(value),
        };
        let mut headers = OwnedHeaders::new_with_capacity(message.attributes.len() + 1);
        headers = headers.insert(header("content-type", &message.content_type));
        for (name, value) in &message.attributes {
            headers = headers.insert(header(name, value));
        }
        BaseRecord::to(&self.topic)
            .key(message.event.aggregate_id.as_str())
            .payload(message.body.as_slice())
            .headers(headers)
    }

    pub(super) async fn count(&self) -> Result<u64> {
        let client = self.clone();
        spawn_blocking(move || client.count_all()).await?
    }

    fn count_all(&self) -> Result<u64> {
        let consumer: BaseConsumer = self.settings.clone().set("group.id", &self.topic).create()?;
        let metadata = consumer.fetch_metadata(Some(&self.topic), ANSWER_MAX)?;
        let mut count = 0;
        for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
            let (low, high) = consumer.fetch_watermarks(&self.topic, partition.id(), ANSWER_MAX)?;
            count += u64::try_from(high - low)?;
        }
        Ok(count)
    }

    pub(super) async fn remove(&self) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.settings.create()?;
        let limits = AdminOptions::new().operation_timeout(Some(ANSWER_MAX));
        let answers = admin.delete_topics(&[&self.topic], &limits).await?;
        for answer in answers {
            match answer {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, code)) => return Err(KafkaError::AdminOp(code)).context(format!("delete {topic}")),
            }
        }
        Ok(())
    }
}
