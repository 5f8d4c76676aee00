//! The brokers that are configured, each opened once for all that use it.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use postroom::{Broker, Destination, Mode, Namespaced, Topic};
use postroom_address::BrokerKind;
use postroom_kafka::Kafka;
use postroom_rabbitmq::RabbitMq;
use postroom_shared::SharedState;

use crate::config;

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
