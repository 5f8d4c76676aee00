#![doc = include_str!("../README.md")]

mod bury;
mod confirm;
mod connect;
mod error;
mod message;
mod publish;
mod rounds;
mod sender;
mod session;
mod subscribe;
mod tls;
mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::uri::{AMQPScheme, AMQPUri};
use postroom::{Broker, Destination, Error, Join, Letter, Mode, Result, Risk, Subscription, Tls, Topic};

use crate::bury::Copies;
use crate::connect::Connector;
use crate::publish::Publisher;
use crate::sender::MessageSender;
use crate::subscribe::Member;
use crate::tls::TlsConfig;
use crate::topology::{Group, Names, SLOTS};

/// A RabbitMQ server. Connects on first use and reconnects automatically.
#[derive(Clone, Debug)]
pub struct RabbitMq {
    partitions: u16,
    names: Arc<Names>,
    sender: Arc<MessageSender>,
    /// A separate connection: a memory alarm blocks connections that publish, and consumers must continue.
    consumer_connection: Arc<Connector>,
}

impl RabbitMq {
    /// The broker at `amqp://user:password@host:port/vhost`, or `amqps://…` with the system's certificate authorities.
    /// Does not connect yet.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_tls(url, &Tls::default())
    }

    /// Like [`RabbitMq::new`], but `amqps://…` uses the certificates in `tls`.
    pub fn with_tls(url: &str, tls: &Tls) -> Result<Self> {
        let uri: AMQPUri = url.parse().map_err(|reason: String| {
            Error::invalid(format!(
                "invalid RabbitMQ address ({reason}); write amqp://user:password@host:port/vhost, the vhost / as %2f"
            ))
        })?;
        let encryption = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(TlsConfig::new(&uri.authority.host, tls)?),
        };
        let connector = |name| Connector::new(uri.clone(), encryption.clone(), name);
        Ok(Self {
            partitions: 1,
            names: Arc::default(),
            sender: Arc::new(MessageSender::new(connector("postroom publishes"))),
            consumer_connection: Arc::new(connector("postroom consumes")),
        })
    }

    /// Number of queues of a group on each topic, 1 to 64; 1 by default. It limits how many members process messages in
    /// parallel. An existing group keeps its number; joining it with another one is an error.
    pub fn partitions(mut self, partitions: u16) -> Result<Self> {
        if !(1..=SLOTS).contains(&partitions) {
            return Err(Error::invalid(format!(
                "{partitions} partitions: give 1 to {SLOTS}, the number of slots"
            )));
        }
        self.partitions = partitions;
        Ok(self)
    }

    /// Name templates of a group's queues and of its dead-letter queue; `{topic}:{group}:{number}` and `{topic}:{group}:dead` by
    /// default. Both must contain `{group}`. The first also needs `{topic}` if a group joins several topics, and `{number}` if
    /// it has several partitions. Existing queues with other names are not renamed: without consumers they fill up.
    pub fn names(mut self, queue: &str, dead: &str) -> Result<Self> {
        self.names = Arc::new(Names::new(queue, dead)?);
        Ok(self)
    }

    /// Like [`RabbitMq::names`], and messages are routed by the type of their event: the routing key is the event type, and each queue
    /// gets only the types that its group listens to. Such a group has one partition, because its queue keeps the order of keys.
    pub fn by_type(mut self, queue: &str, dead: &str) -> Result<Self> {
        if self.partitions > 1 {
            return Err(Error::invalid(format!(
                "{} partitions: a group whose messages are routed by type has one queue; set partitions to 1",
                self.partitions
            )));
        }
        self.names = Arc::new(Names::new(queue, dead)?.by_type());
        Ok(self)
    }

    /// Number of messages that wait for a group, by topic. Unacknowledged messages of a member do not count.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<BTreeMap<String, u64>> {
        let mut waiting = BTreeMap::new();
        for topic in topics {
            let count = self.group(group, topic).waiting(&self.consumer_connection).await?;
            waiting.insert(topic.clone(), count);
        }
        Ok(waiting)
    }

    /// Deletes a group's queues on these topics, with all waiting messages and dead letters.
    pub async fn forget(&self, group: &str, topics: &[String]) -> Result<()> {
        for topic in topics {
            self.group(group, topic).delete(&self.consumer_connection).await?;
        }
        Ok(())
    }

    fn group<'a>(&'a self, name: &'a str, topic: &'a str) -> Group<'a> {
        Group {
            name,
            topic,
            partitions: self.partitions,
            names: &self.names,
        }
    }
}

#[async_trait]
impl Broker for RabbitMq {
    fn name(&self) -> String {
        format!("{}{}", self.consumer_connection.broker(), self.names.label())
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            sender: Arc::clone(&self.sender),
            topic,
            mode,
            names: Arc::clone(&self.names),
        })
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        let Join { group, topics, .. } = join;
        if topics.is_empty() {
            return Err(Error::invalid(format!(
                "the group {group} has no topic; name at least one"
            )));
        }
        self.names.check(group, topics.len(), self.partitions)?;
        let (mut sources, mut stale) = (Vec::new(), Vec::new());
        for topic in topics {
            let joined = self.group(group, topic).join(&self.consumer_connection, &join).await?;
            sources.extend(joined.sources);
            stale.extend(joined.stale);
        }
        let connector = Arc::clone(&self.consumer_connection);
        Ok(Box::new(Member::new(connector, sources, stale)))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        bury::bury(&self.sender, &self.names, letter).await
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        let mut queues = Vec::new();
        for topic in topics {
            queues.push(self.group(group, topic).dead_source()?);
        }
        Ok(Box::new(Copies::open(&self.consumer_connection, queues).await?))
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        Ok(self.lag(group, topics).await?.values().sum())
    }

    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        self.consumer_connection.channel().await?;
        let mut risks = Vec::new();
        for topic in topics {
            risks.extend(self.group(group, topic).risks(&self.consumer_connection).await?);
        }
        Ok(risks)
    }
}
