//! The brokers that are configured, each opened once for all that use it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use postroom::{Broker, Filter, Mode, Prefixed, Relay, Route, Start, Subscriber, To, Topic};
use postroom_host::Module;
use postroom_kafka::{Kafka, TopicSpec};
use postroom_rabbitmq::RabbitMq;
use postroom_redis::Redis;

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

    fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::RabbitMq => "rabbitmq",
            Self::Redis => "redis",
        }
    }

    fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Kafka => &["kafka"],
            Self::RabbitMq => &["amqp", "amqps"],
            Self::Redis => &["redis", "rediss"],
        }
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
    pub(crate) fn open(&self) -> Result<Arc<dyn Broker>> {
        connect(self.kind, &self.url)
    }

    /// For one route that publishes in transactions under this id.
    pub(crate) fn open_transactional(&self, id: &str) -> Result<Arc<dyn Broker>> {
        ensure!(
            self.kind == BrokerKind::Kafka,
            "{} has no transactions; Kafka has",
            self.kind
        );
        let kafka = Kafka::new(&postroom_kafka::Options::new(self.secret()))?;
        Ok(Arc::new(kafka.transactional(id)))
    }

    pub(crate) fn kind(&self) -> BrokerKind {
        self.kind
    }

    /// Makes a topic of three partitions, on a broker that has such.
    pub(crate) async fn create_topic(&self, name: &str) -> Result<()> {
        if self.kind == BrokerKind::Kafka {
            let spec = TopicSpec {
                name: name.to_owned(),
                partitions: 3,
                replication: 1,
                config: BTreeMap::new(),
            };
            Kafka::new(&postroom_kafka::Options::new(self.secret()))?
                .apply(&[spec])
                .await?;
        }
        Ok(())
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
#[derive(Debug)]
pub(crate) struct Brokers(HashMap<BrokerKind, Arc<dyn Broker>>);

impl Brokers {
    /// Gets them ready; connections are made when they are needed.
    pub(crate) fn open(brokers: &config::Brokers) -> Result<Self> {
        let mut open = HashMap::new();
        for kind in BrokerKind::ALL {
            let config::Broker { url, prefix } = brokers.get(kind);
            if let Some(url) = url {
                let broker = connect(kind, url).with_context(|| format!("use {kind} at {url}"))?;
                let broker: Arc<dyn Broker> = Arc::new(Prefixed::new(broker, prefix)?);
                open.insert(kind, broker);
            }
        }
        Ok(Self(open))
    }

    /// A broker by its kind.
    pub(crate) fn get(&self, kind: BrokerKind) -> Result<&Arc<dyn Broker>> {
        self.0
            .get(&kind)
            .with_context(|| format!("{kind} has no address; add [brokers.{kind}] with its url"))
    }
}

fn connect(kind: BrokerKind, url: &BrokerUrl) -> Result<Arc<dyn Broker>> {
    Ok(match kind {
        BrokerKind::Kafka => Arc::new(Kafka::new(&postroom_kafka::Options::new(url.secret()))?),
        BrokerKind::RabbitMq => Arc::new(RabbitMq::new(url.secret())?),
        BrokerKind::Redis => Arc::new(Redis::open(url.secret(), postroom_redis::Options::default())?),
    })
}

/// Joins modules to a relay whose subscribers are fed by a broker: the declared event types that any of them listens to are
/// published there by one route, and each reads their topics. Other events come from the log.
pub(crate) fn join_through(
    mut relay: Relay,
    modules: Vec<&mut Module>,
    event_types: &[&str],
    (kind, broker): (BrokerKind, &Arc<dyn Broker>),
) -> Relay {
    let topic = Topic::default();
    let subscribers = || modules.iter().flat_map(|module| &module.subscribers);
    let wanted = |event_type: &&&str| subscribers().any(|subscriber| subscriber.filter.matches(event_type));
    let brings = Filter::any_of(event_types.iter().filter(wanted).copied());
    let is_fed = |subscriber: &&Subscriber| !topics(&topic, &subscriber.filter, event_types).is_empty();
    let groups: Vec<String> = subscribers()
        .filter(is_fed)
        .map(|subscriber| subscriber.group.clone())
        .collect();
    let from_head = subscribers().all(|subscriber| subscriber.start == Start::Head);
    for module in modules {
        relay = module.join_through(relay, (broker, &brings), |filter| topics(&topic, filter, event_types));
    }
    if groups.is_empty() {
        return relay;
    }
    let publisher = broker.publisher(topic, Mode::default());
    relay.route(Route {
        filter: brings,
        awaits: groups,
        start: if from_head { Start::Head } else { Start::Beginning },
        ..Route::new(format!("to-{kind}"), To::Destination(publisher))
    })
}

/// The topics of those event types that match.
pub(crate) fn topics(topic: &Topic, filter: &Filter, event_types: &[&str]) -> Vec<String> {
    let matching = event_types.iter().filter(|event_type| filter.matches(event_type));
    let mut topics: Vec<String> = matching.map(|event_type| topic.of(event_type)).collect();
    topics.sort();
    topics.dedup();
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |kind: BrokerKind, text: &str, shown: &str| {
            assert_eq!(BrokerUrl::parse(kind, text).unwrap().to_string(), shown);
        };
        check(BrokerKind::Kafka, "kafka://a:1,b:2", "kafka://a:1,b:2");
        check(BrokerKind::RabbitMq, "amqp://me:pass@host:1/%2f", "amqp://…@host:1/%2f");
        check(BrokerKind::Redis, "rediss://:p@ss@host/", "rediss://…@host/");
        assert!(BrokerUrl::parse(BrokerKind::Kafka, "amqp://a").is_err());
        assert!(BrokerUrl::parse(BrokerKind::Redis, "redis://").is_err());
    }

    #[test]
    fn topics_follow_from_the_types_that_match() {
        let types = ["shop.order.paid.v1", "shop.order.sent.v1", "shop.like.created.v1"];
        let of = |pattern: &str| topics(&Topic::default(), &Filter::any_of([pattern]), &types);
        assert_eq!(of("shop.order.**"), ["order-events"]);
        assert_eq!(of("**"), ["like-events", "order-events"]);
        assert!(of("other.**").is_empty());
    }
}
