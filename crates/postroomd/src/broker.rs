//! The brokers that are configured, each opened once for all that use it.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use postroom::{Broker, Destination, Mode, Namespaced, Topic};
use postroom_bench::TrialBroker;
use postroom_kafka::Kafka;
use postroom_rabbitmq::RabbitMq;
use postroom_shared::SharedState;

use crate::config;

/// A kind of broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BrokerKind {
    Kafka,
    RabbitMq,
    Redis,
}

impl BrokerKind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Kafka, Self::RabbitMq, Self::Redis];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::RabbitMq => "rabbitmq",
            Self::Redis => "redis",
        }
    }

    /// How addresses begin: one that is not encrypted, one that is.
    fn schemes(self) -> [&'static str; 2] {
        match self {
            Self::Kafka => ["kafka", "kafka+ssl"],
            Self::RabbitMq => ["amqp", "amqps"],
            Self::Redis => ["redis", "rediss"],
        }
    }

    /// How an address begins whose connections are encrypted.
    pub(crate) fn encrypted(self) -> &'static str {
        let [_, encrypted] = self.schemes();
        encrypted
    }
}

impl FromStr for BrokerKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The address of a broker. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BrokerUrl(String);

impl BrokerUrl {
    pub(crate) fn parse(kind: BrokerKind, text: &str) -> Result<Self, String> {
        let is_right = |scheme: &&str| {
            let rest = text.strip_prefix(*scheme).and_then(|rest| rest.strip_prefix("://"));
            rest.is_some_and(|host| !host.is_empty())
        };
        if kind == BrokerKind::Kafka && text.contains('@') {
            return Err("a name and a password have their own place: [brokers.kafka.sasl]".to_owned());
        }
        if kind.schemes().iter().any(is_right) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "must begin with {}:// and name a host",
            kind.schemes().join(":// or ")
        ))
    }

    /// With its password.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Whether it asks for TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        let scheme = self.0.split("://").next().unwrap_or_default();
        BrokerKind::ALL.into_iter().any(|kind| kind.encrypted() == scheme)
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.split_once("://"), self.0.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => write!(f, "{scheme}://…@{host}"),
            _ => f.write_str(&self.0),
        }
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A broker named by its address alone, as a flag does.
#[derive(Clone, Debug)]
pub(crate) struct BrokerAddress {
    kind: BrokerKind,
    url: BrokerUrl,
}

impl BrokerAddress {
    /// Gets the broker ready for a trial; connections are made when they are needed.
    pub(crate) fn open(&self) -> Result<TrialBroker> {
        match self.kind {
            BrokerKind::Kafka => TrialBroker::kafka(self.secret()),
            BrokerKind::RabbitMq => TrialBroker::rabbitmq(self.secret()),
            BrokerKind::Redis => TrialBroker::redis(self.secret()),
        }
    }

    /// With its password.
    pub(crate) fn secret(&self) -> &str {
        self.url.secret()
    }
}

impl FromStr for BrokerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split("://").next().unwrap_or_default();
        let kind = BrokerKind::ALL
            .into_iter()
            .find(|kind| kind.schemes().contains(&scheme));
        let kind = kind.ok_or("must begin with kafka://, amqp:// or redis://")?;
        let url = BrokerUrl::parse(kind, text)?;
        Ok(Self { kind, url })
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.url, f)
    }
}

/// The brokers with an address.
#[derive(Debug, Default)]
pub(crate) struct Brokers {
    open: HashMap<BrokerKind, Arc<dyn Broker>>,
    /// Kafka with its prefix, if routes publish there in transactions.
    transactional: Option<(Kafka, String)>,
    /// RabbitMQ without its prefix, for modules whose queues have names of their own.
    rabbitmq: Option<RabbitMq>,
    /// The state that all processes with this Redis share.
    pub(crate) shared: Option<SharedState>,
}

impl Brokers {
    /// Gets them ready; connections are made when they are needed.
    pub(crate) fn open(config: &config::Brokers) -> Result<Self> {
        let config::Brokers { kafka, rabbitmq, redis } = config;
        let mut brokers = Self::default();
        if let Some(open) = kafka.open().context("use kafka")? {
            if kafka.options.is_transactional {
                brokers.transactional = Some((open.clone(), kafka.prefix.clone()));
            }
            brokers.add(BrokerKind::Kafka, Arc::new(open), &kafka.prefix)?;
        }
        if let Some(open) = rabbitmq.open().context("use rabbitmq")? {
            brokers.rabbitmq = Some(open.clone());
            brokers.add(BrokerKind::RabbitMq, Arc::new(open), &rabbitmq.prefix)?;
        }
        if let Some(open) = redis.open().context("use redis")? {
            brokers.shared = Some(open.prefixed_shared_state(&redis.prefix)?);
            brokers.add(BrokerKind::Redis, Arc::new(open), &redis.prefix)?;
        }
        Ok(brokers)
    }

    /// The broker of a module whose queue has names of its own.
    pub(crate) fn of_queue(&self, config: &config::Config, module: &str) -> Result<Option<Arc<dyn Broker>>> {
        let (Some(queue), Some(kind)) = (config.modules.queue(module), config.modules.broker(module)) else {
            return Ok(None);
        };
        match (kind, &queue.names, &self.rabbitmq) {
            (BrokerKind::Redis, _, _) => {
                let redis = &config.brokers.redis;
                let open = redis
                    .open_with(&config::of_queue(&redis.options, queue))
                    .context("use redis")?;
                open.map(|open| namespaced(Arc::new(open), &redis.prefix)).transpose()
            }
            (BrokerKind::RabbitMq, Some(names), Some(rabbitmq)) => {
                let own = rabbitmq.clone().partitions(1)?.by_type(&names.queue, &names.dead);
                let own = own.with_context(|| format!("name the queues of the module {module}"))?;
                namespaced(Arc::new(own), &config.brokers.rabbitmq.prefix).map(Some)
            }
            (BrokerKind::RabbitMq | BrokerKind::Kafka, _, _) => Ok(None),
        }
    }

    fn add(&mut self, kind: BrokerKind, broker: Arc<dyn Broker>, prefix: &str) -> Result<()> {
        self.open.insert(kind, namespaced(broker, prefix)?);
        Ok(())
    }

    /// A broker by its kind.
    pub(crate) fn get(&self, kind: BrokerKind) -> Result<&Arc<dyn Broker>> {
        self.open
            .get(&kind)
            .with_context(|| format!("{kind} has no address; add [brokers.{kind}] with its url"))
    }

    /// Where a route publishes. Kafka's transactions are told apart by the route's name.
    pub(crate) fn publisher(
        &self,
        kind: BrokerKind,
        route: &str,
        topic: Topic,
        mode: Mode,
    ) -> Result<Arc<dyn Destination>> {
        match &self.transactional {
            Some((kafka, prefix)) if kind == BrokerKind::Kafka => {
                let own = Arc::new(kafka.transactional(format!("{prefix}{route}")));
                Ok(Namespaced::new(own, prefix)?.publisher(topic, mode))
            }
            _ => Ok(self.get(kind)?.publisher(topic, mode)),
        }
    }
}

fn namespaced(broker: Arc<dyn Broker>, prefix: &str) -> Result<Arc<dyn Broker>> {
    Ok(Arc::new(Namespaced::new(broker, prefix)?))
}

#[cfg(test)]
mod tests {
    use postroom_host::{Queue, QueueNames};

    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |kind: BrokerKind, text: &str, shown: &str| {
            assert_eq!(BrokerUrl::parse(kind, text).unwrap().to_string(), shown);
        };
        check(BrokerKind::Kafka, "kafka://a:1,b:2", "kafka://a:1,b:2");
        check(BrokerKind::RabbitMq, "amqp://me:pass@host:1/%2f", "amqp://…@host:1/%2f");
        check(BrokerKind::Redis, "rediss://:p@ss@host/", "rediss://…@host/");
        check(BrokerKind::Kafka, "kafka+ssl://a:1", "kafka+ssl://a:1");
        assert!(BrokerUrl::parse(BrokerKind::Kafka, "amqp://a").is_err());
        assert!(BrokerUrl::parse(BrokerKind::Kafka, "kafka://me:pass@a:1").is_err());
        assert!(BrokerUrl::parse(BrokerKind::Redis, "redis://").is_err());
    }

    #[test]
    fn a_module_has_queues_of_its_own_on_a_broker_that_others_share() {
        let toml = "[brokers.rabbitmq]\nurl = \"amqp://a:1/%2f\"\nprefix = \"shop-\"\npartitions = 4\n\
                    [modules.hello]\nbroker = \"rabbitmq\"\n[modules.ledger]\nbroker = \"rabbitmq\"";
        let mut config = config::Config::read(toml, []).unwrap();
        let settings = config.modules.0.get_mut("hello").unwrap();
        settings.queue = Some(Queue {
            names: Some(QueueNames::new("{group}_queue", "{group}_dlq")),
            ..Queue::default()
        });
        let brokers = Brokers::open(&config.brokers).unwrap();
        let own = |module: &str| brokers.of_queue(&config, module).unwrap().map(|queue| queue.name());
        let shared = brokers.get(BrokerKind::RabbitMq).unwrap().name();
        assert_eq!(shared, "rabbitmq a:1//#shop-");
        assert_eq!(
            own("hello").as_deref(),
            Some("rabbitmq a:1// by type {group}_queue#shop-")
        );
        assert_eq!(own("ledger"), None);
    }

    #[test]
    fn transactions_are_told_apart_by_prefix_and_route() {
        let publishers = |producer: &str| {
            let toml = format!("[brokers.kafka]\nurl = \"kafka://a:1\"\nprefix = \"shop-\"\nproducer = \"{producer}\"");
            let config = config::Config::read(&toml, []).unwrap();
            let brokers = Brokers::open(&config.brokers).unwrap();
            let publisher = brokers.publisher(BrokerKind::Kafka, "orders", Topic::default(), Mode::default());
            format!("{:?}", publisher.unwrap())
        };
        let own = publishers("transactional");
        assert!(
            own.contains("\"shop-orders\"") && own.starts_with("TransactionalPublisher"),
            "{own}"
        );
        let shared = publishers("idempotent");
        assert!(shared.starts_with("Publisher"), "{shared}");
    }
}
