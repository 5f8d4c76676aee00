//! A broker that `bench` and `verify` use, by its address alone: its adapter with the usual options, and its own client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use postroom::{Broker, Tls};
use postroom_address::{BrokerAddress, BrokerKind};
use postroom_kafka::{Kafka, TopicSpec};
use postroom_rabbitmq::RabbitMq;
use postroom_redis::Redis;

use crate::plain::Plain;

/// Of a topic that a trial makes.
const PARTITIONS: i32 = 3;

/// A broker at an address. Connections are made when they are needed.
#[derive(Clone)]
pub struct TrialBroker {
    adapter: Adapter,
    /// With its password.
    url: String,
}

#[derive(Clone, Debug)]
enum Adapter {
    Kafka(Kafka),
    RabbitMq(RabbitMq),
    Redis(Redis),
}

impl TrialBroker {
    /// The broker at this address.
    pub fn open(address: &BrokerAddress) -> Result<Self> {
        match address.kind() {
            BrokerKind::Kafka => Self::kafka(address.secret()),
            BrokerKind::RabbitMq => Self::rabbitmq(address.secret()),
            BrokerKind::Redis => Self::redis(address.secret()),
        }
    }

    /// Kafka at `kafka://host:9092`; `kafka+ssl://…` encrypts, with the certificate authorities of the system.
    fn kafka(url: &str) -> Result<Self> {
        let mut options = postroom_kafka::Options::new(url.replacen("kafka+ssl:", "kafka:", 1));
        options.security.tls = url.starts_with("kafka+ssl:").then(Tls::default);
        Ok(Self::new(Adapter::Kafka(Kafka::new(&options)?), url))
    }

    /// RabbitMQ at `amqp://user:password@host/vhost`; `amqps://…` encrypts.
    fn rabbitmq(url: &str) -> Result<Self> {
        Ok(Self::new(Adapter::RabbitMq(RabbitMq::new(url)?), url))
    }

    /// Redis at `redis://user:password@host`; `rediss://…` encrypts.
    fn redis(url: &str) -> Result<Self> {
        let redis = Redis::open(url, postroom_redis::Options::default())?;
        Ok(Self::new(Adapter::Redis(redis), url))
    }

    fn new(adapter: Adapter, url: &str) -> Self {
        let url = url.to_owned();
        Self { adapter, url }
    }

    /// The broker as a relay uses it.
    pub fn adapter(&self) -> Arc<dyn Broker> {
        match self.adapter.clone() {
            Adapter::Kafka(kafka) => Arc::new(kafka),
            Adapter::RabbitMq(rabbitmq) => Arc::new(rabbitmq),
            Adapter::Redis(redis) => Arc::new(redis),
        }
    }

    /// The broker for one route that publishes in transactions under this id.
    pub(super) fn transactional(&self, id: &str) -> Result<Arc<dyn Broker>> {
        match &self.adapter {
            Adapter::Kafka(kafka) => Ok(Arc::new(kafka.transactional(id))),
            Adapter::RabbitMq(_) => bail!("rabbitmq has no transactions; Kafka has"),
            Adapter::Redis(_) => bail!("redis has no transactions; Kafka has"),
        }
    }

    /// Creates a topic, on a broker that does not create topics when they are used.
    pub async fn create_topic(&self, topic: &str) -> Result<()> {
        if let Adapter::Kafka(kafka) = &self.adapter {
            let spec = TopicSpec {
                name: topic.to_owned(),
                partitions: PARTITIONS,
                replication: 1,
                config: BTreeMap::new(),
            };
            kafka.apply(&[spec]).await?;
        }
        Ok(())
    }

    /// Removes a topic, the topic of its dead letters and all that the broker keeps for these groups.
    pub async fn remove_topic(&self, topic: &str, groups: &[String]) -> Result<()> {
        if let Adapter::RabbitMq(rabbitmq) = &self.adapter {
            for group in groups {
                rabbitmq.forget(group, &[topic.to_owned()]).await?;
            }
        }
        for topic in [topic, &format!("{topic}.DLT")] {
            self.client(topic).await?.remove().await?;
        }
        Ok(())
    }

    /// The broker's own client for a topic.
    pub(super) async fn client(&self, topic: &str) -> Result<Plain> {
        let connected = match &self.adapter {
            Adapter::Kafka(_) => Ok(Plain::kafka(&self.url, topic)),
            Adapter::RabbitMq(_) => Plain::rabbitmq(&self.url, topic).await,
            Adapter::Redis(_) => Plain::redis(&self.url, topic).await,
        };
        connected.with_context(|| format!("connect to {}", self.adapter().name()))
    }
}

/// The address may hold a password, so it is not shown.
impl fmt::Debug for TrialBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrialBroker").field(&self.adapter).finish()
    }
}
