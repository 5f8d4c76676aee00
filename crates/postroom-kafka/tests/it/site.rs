//! A Kafka for tests, shared or private, with a plain client that reads and writes its topics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Broker, Join, Start, Subscription};
use postroom_kafka::{Kafka, Options, TopicSpec};
use postroom_testkit::broker_suite::Site;
use postroom_testkit::kafka_server::{self, Server};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, Headers as _, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

const VARIABLE: &str = "POSTROOM_TEST_KAFKA_URL";

/// A Kafka under test.
#[derive(Debug)]
pub(crate) struct KafkaSite {
    pub(crate) url: String,
    pub(crate) kafka: Kafka,
    pub(crate) server: Option<Server>,
}

impl KafkaSite {
    pub(crate) fn shared() -> Self {
        let url = std::env::var(VARIABLE).unwrap_or_else(|_| {
            panic!(
                "{VARIABLE} is not set: this test needs Kafka. Start the services and tell this shell about them with \
                 `eval \"$(cargo xtask services up)\"`"
            )
        });
        Self::at(url, None)
    }

    pub(crate) async fn private() -> Self {
        let server = kafka_server::kafka().await;
        Self::at(server.url(), Some(server))
    }

    fn at(url: String, server: Option<Server>) -> Self {
        Self {
            kafka: Kafka::new(&Options::new(&url)).unwrap(),
            url,
            server,
        }
    }

    /// The same Kafka, with a transactional publisher.
    pub(crate) fn in_transactions(mut self) -> Self {
        self.kafka = self.kafka.transactional(format!("test-{}", uuid::Uuid::now_v7()));
        self
    }

    pub(crate) async fn join(&self, group: &str, topic: &str, start: Start) -> Box<dyn Subscription> {
        self.kafka
            .subscribe(Join::new(group, &[topic.to_owned()], start))
            .await
            .unwrap()
    }

    pub(crate) async fn behind(&self, group: &str, topic: &str) -> u64 {
        let lag = self.kafka.lag(group, &[topic.to_owned()]).await.unwrap();
        assert_eq!(lag[0].topic, topic);
        lag[0].messages
    }

    pub(crate) async fn create_with(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) {
        let config = config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let spec = TopicSpec {
            name: topic.to_owned(),
            partitions,
            replication: 1,
            config: config.collect(),
        };
        self.kafka.apply(&[spec]).await.unwrap();
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.url.trim_start_matches("kafka://"));
        config
    }

    /// Reads all messages of a topic with a plain client, partition by partition.
    pub(crate) async fn read(&self, topic: &str, isolation: &str) -> Vec<OwnedMessage> {
        let mut config = self.client();
        config
            .set("group.id", "plain")
            .set("isolation.level", isolation)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true");
        let topic = topic.to_owned();
        let read = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let metadata = consumer.fetch_metadata(Some(&topic), Duration::from_secs(10)).unwrap();
            let partitions = metadata.topics()[0].partitions().len();
            let mut all = TopicPartitionList::new();
            for partition in 0..i32::try_from(partitions).unwrap() {
                all.add_partition_offset(&topic, partition, Offset::Beginning).unwrap();
            }
            consumer.assign(&all).unwrap();
            read_to_end(&consumer, partitions)
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }
}

fn read_to_end(consumer: &BaseConsumer, partitions: usize) -> Vec<OwnedMessage> {
    let mut messages = Vec::new();
    let mut ended = 0;
    while ended < partitions {
        match consumer.poll(Duration::from_secs(10)) {
            Some(Ok(message)) => messages.push(message.detach()),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            None => panic!("timeout before the end of a partition"),
        }
    }
    messages
}

/// The headers of a message as text.
pub(crate) fn headers(message: &OwnedMessage) -> BTreeMap<String, String> {
    let headers = message.headers().unwrap().iter();
    headers
        .map(|header| {
            (
                header.key.to_owned(),
                String::from_utf8(header.value.unwrap().to_vec()).unwrap(),
            )
        })
        .collect()
}

#[async_trait]
impl Site for KafkaSite {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.kafka.clone())
    }

    async fn create(&mut self, topic: &str, partitions: u16) {
        self.create_with(topic, i32::from(partitions), &[]).await;
        self.create_with(&format!("{topic}.DLT"), 1, &[]).await;
    }

    async fn create_refusing(&mut self, _topic: &str) {}

    async fn put(&mut self, topic: &str, content_type: &str, body: &[u8]) {
        let producer: FutureProducer = self.client().create().unwrap();
        let headers = OwnedHeaders::new().insert(Header {
            key: "content-type",
            value: Some(content_type),
        });
        let record: FutureRecord<'_, str, [u8]> = FutureRecord::to(topic).payload(body).headers(headers);
        producer.send(record, Duration::from_secs(10)).await.unwrap();
    }

    fn removes_copies(&self) -> bool {
        false
    }

    async fn dead_letters(&mut self, topic: &str) -> Vec<String> {
        let letters = self.read(&format!("{topic}.DLT"), "read_committed").await;
        letters
            .iter()
            .map(|letter| {
                format!(
                    "{:?} {}",
                    headers(letter),
                    String::from_utf8_lossy(letter.payload().unwrap())
                )
            })
            .collect()
    }

    async fn stop(&mut self) {
        self.server.as_mut().unwrap().stop().await.unwrap();
    }

    async fn start(&mut self) {
        self.server.as_mut().unwrap().restart().await.unwrap();
    }
}
