//! `[brokers]`: where each broker is, who may listen in, and how it is used.

use postroom::{Identity, Result, Start, Tls};
use postroom_address::{BrokerKind, BrokerUrl};
use postroom_kafka::{Kafka, Login, Mechanism, Security};
use postroom_rabbitmq::RabbitMq;
use postroom_redis::Redis;
use toml::Table;

use super::section::{Mistakes, Section};
use super::value;

/// Every broker there can be; one without an address is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Brokers {
    pub(crate) kafka: Broker<KafkaOptions>,
    pub(crate) rabbitmq: Broker<RabbitMqOptions>,
    pub(crate) redis: Broker<postroom_redis::Options>,
}

/// `[brokers.kafka]` and its like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Broker<O> {
    pub(crate) url: Option<BrokerUrl>,
    /// Stands before every topic and group.
    pub(crate) prefix: String,
    /// Used if the address says so.
    pub(crate) tls: Tls,
    pub(crate) options: O,
}

/// The options that only Kafka has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KafkaOptions {
    pub(crate) sasl: Option<Login>,
    pub(crate) is_transactional: bool,
    /// The start of a group whose offset is no longer in the topic.
    pub(crate) lost: Start,
    /// Of topics that `postroom topics apply` creates.
    pub(crate) partitions: i32,
    pub(crate) replication: i32,
}

/// The options that only RabbitMQ has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RabbitMqOptions {
    pub(crate) partitions: u16,
    /// Of queues and of dead letters' queues, if they are not the usual ones.
    pub(crate) names: Option<(String, String)>,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            sasl: None,
            is_transactional: false,
            lost: Start::Head,
            partitions: 3,
            replication: 1,
        }
    }
}

impl Default for RabbitMqOptions {
    fn default() -> Self {
        Self {
            partitions: 1,
            names: None,
        }
    }
}

impl Brokers {
    /// A broker's address.
    pub(crate) fn url(&self, kind: BrokerKind) -> Option<&BrokerUrl> {
        match kind {
            BrokerKind::Kafka => self.kafka.url.as_ref(),
            BrokerKind::RabbitMq => self.rabbitmq.url.as_ref(),
            BrokerKind::Redis => self.redis.url.as_ref(),
        }
    }
}

impl Broker<KafkaOptions> {
    /// Gets it ready, if it has an address; connections are made when they are needed.
    pub(crate) fn open(&self) -> Result<Option<Kafka>> {
        let Some(url) = &self.url else { return Ok(None) };
        let mut options = postroom_kafka::Options::new(url.secret().replacen("kafka+ssl:", "kafka:", 1));
        options.lost = self.options.lost;
        options.security = Security {
            login: self.options.sasl.clone(),
            tls: url.is_encrypted().then(|| self.tls.clone()),
        };
        Kafka::new(&options).map(Some)
    }
}

impl Broker<RabbitMqOptions> {
    /// Gets it ready, if it has an address; connections are made when they are needed.
    pub(crate) fn open(&self) -> Result<Option<RabbitMq>> {
        let RabbitMqOptions { partitions, names } = &self.options;
        let open = |url: &BrokerUrl| {
            let rabbitmq = RabbitMq::with_tls(url.secret(), &self.tls)?.partitions(*partitions)?;
            match names {
                Some((queue, dead)) => rabbitmq.names(queue, dead),
                None => Ok(rabbitmq),
            }
        };
        self.url.as_ref().map(open).transpose()
    }
}

impl Broker<postroom_redis::Options> {
    /// Gets it ready, if it has an address; connections are made when they are needed.
    pub(crate) fn open(&self) -> Result<Option<Redis>> {
        self.open_with(&self.options)
    }

    /// The same with other options.
    pub(crate) fn open_with(&self, options: &postroom_redis::Options) -> Result<Option<Redis>> {
        let options = || postroom_redis::Options {
            tls: self.tls.clone(),
            ..options.clone()
        };
        let open = |url: &BrokerUrl| Redis::open(url.secret(), options());
        self.url.as_ref().map(open).transpose()
    }
}

pub(super) fn read(brokers: &mut Section<'_>) -> Brokers {
    Brokers {
        kafka: brokers.section("kafka", |section| {
            let kafka = read_one(section, BrokerKind::Kafka, read_kafka);
            check(section, kafka.open());
            kafka
        }),
        rabbitmq: brokers.section("rabbitmq", |section| {
            let rabbitmq = read_one(section, BrokerKind::RabbitMq, read_rabbitmq);
            check(section, rabbitmq.open());
            rabbitmq
        }),
        redis: brokers.section("redis", |section| {
            let redis = read_one(section, BrokerKind::Redis, read_redis);
            check(section, redis.open());
            redis
        }),
    }
}

fn read_one<O>(section: &mut Section<'_>, kind: BrokerKind, options: fn(&mut Section<'_>) -> O) -> Broker<O> {
    let url = section.take("url", value::broker_url(kind));
    let broker = Broker {
        prefix: section.take("prefix", value::prefix).unwrap_or_default(),
        tls: read_tls(section, kind, url.as_ref()),
        options: options(section),
        url,
    };
    refuse_others(section, kind);
    broker
}

/// Reports the adapter's error about its options. The check is cheap: the adapter does not connect yet.
fn check<T>(section: &mut Section<'_>, open: Result<T>) {
    if section.is_clean()
        && let Err(error) = open
    {
        section.wrong("url", &error.report());
    }
}

fn read_tls(section: &mut Section<'_>, kind: BrokerKind, url: Option<&BrokerUrl>) -> Tls {
    let authority = section.take("ca", value::file);
    let certificate = section.take("certificate", value::file);
    let key = section.take("key", value::file);
    if certificate.is_some() != key.is_some() {
        section.wrong("certificate", "comes together with its key, and the key with it");
    }
    let tls = Tls {
        authority,
        identity: certificate
            .zip(key)
            .map(|(certificate, key)| Identity { certificate, key }),
    };
    if tls != Tls::default() && url.is_some_and(|url| !url.is_encrypted()) {
        let says = format!(
            "ca, certificate and key are for encrypted connections; write {}://",
            kind.encrypted()
        );
        section.wrong("url", &says);
    }
    tls
}

/// An option of another kind of broker has another place, not no meaning.
fn refuse_others(section: &mut Section<'_>, kind: BrokerKind) {
    for other in BrokerKind::ALL {
        for key in keys(other) {
            section.refuse(key, &format!("is an option of [brokers.{other}]; {kind} has none such"));
        }
    }
}

/// The options that only this kind of broker has: those that it asks for.
fn keys(kind: BrokerKind) -> Vec<&'static str> {
    let mut mistakes = Mistakes::default();
    let mut section = Section::new("", Table::new(), &mut mistakes);
    match kind {
        BrokerKind::Kafka => drop(read_kafka(&mut section)),
        BrokerKind::RabbitMq => drop(read_rabbitmq(&mut section)),
        BrokerKind::Redis => drop(read_redis(&mut section)),
    }
    section.known().to_vec()
}

fn read_kafka(section: &mut Section<'_>) -> KafkaOptions {
    let default = KafkaOptions::default();
    KafkaOptions {
        sasl: section.section_if_any("sasl", read_sasl).flatten(),
        is_transactional: section.take_or(
            "producer",
            value::one_of(&[("idempotent", false), ("transactional", true)]),
            default.is_transactional,
        ),
        lost: section.take_or("lost", value::start, default.lost),
        partitions: section.take_or("partitions", value::number(1..=10_000), default.partitions),
        replication: section.take_or("replication", value::number(1..=100), default.replication),
    }
}

fn read_sasl(section: &mut Section<'_>) -> Option<Login> {
    let mechanisms = value::one_of(&[
        ("plain", Mechanism::Plain),
        ("scram-sha-256", Mechanism::ScramSha256),
        ("scram-sha-512", Mechanism::ScramSha512),
    ]);
    let mechanism = section.require("mechanism", mechanisms);
    let user = section.require("username", value::text);
    let password = section.require("password", value::secret);
    Some(Login {
        mechanism: mechanism?,
        user: user?,
        password: password?,
    })
}

fn read_rabbitmq(section: &mut Section<'_>) -> RabbitMqOptions {
    let queue = section.take("queue", value::text);
    let dead = section.take("dead_queue", value::text);
    if section.is_clean() && queue.is_some() != dead.is_some() {
        section.wrong("queue", "must be set together with dead_queue");
    }
    RabbitMqOptions {
        partitions: section.take_or(
            "partitions",
            value::number(1..=64),
            RabbitMqOptions::default().partitions,
        ),
        names: queue.zip(dead),
    }
}

fn read_redis(section: &mut Section<'_>) -> postroom_redis::Options {
    let default = postroom_redis::Options::default();
    let options = postroom_redis::Options {
        stream: section.take_or("stream", value::text, default.stream),
        partitions: section.take_or("partitions", value::number(1..=1024), default.partitions),
        lease: section.take_or("lease", value::duration_from(super::LEASE_MIN), default.lease),
        deliveries_max: section.take_or("deliveries_max", value::limit, default.deliveries_max),
        keep: section.take_or("keep", value::duration, default.keep),
        length_max: section.take("length_max", value::number(1..=1_000_000_000_000)),
        replicas: section.take_or("replicas", value::number(0..=100), default.replicas),
        timeout: default.timeout,
        poll_timeout: default.poll_timeout,
        tls: default.tls,
    };
    if section.is_clean()
        && let Err(error) = options.check_stream()
    {
        section.wrong("stream", &error.report());
    }
    options
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom::Start;

    use super::super::Config;

    fn read(toml: &str) -> anyhow::Result<Config> {
        Config::read(toml, [])
    }

    #[test]
    fn every_option_is_read() {
        let config = read(
            r#"
            [brokers.kafka]
            url = "kafka://a:1,b:2"
            prefix = "shop-"
            producer = "transactional"
            lost = "beginning"
            partitions = 12
            replication = 3
            sasl = { mechanism = "plain", username = "me", password = "hush" }
            [brokers.rabbitmq]
            url = "amqp://a"
            partitions = 8
            [brokers.redis]
            url = "redis://a"
            stream = "shop:{{topic}}:{number}"
            partitions = 2
            lease = "30s"
            deliveries_max = "unlimited"
            keep = "1d"
            length_max = 5000
            replicas = 1
            "#,
        );
        let brokers = config.unwrap().brokers;
        let kafka = &brokers.kafka.options;
        assert_eq!(
            (kafka.is_transactional, kafka.lost, kafka.partitions, kafka.replication),
            (true, Start::Beginning, 12, 3)
        );
        let sasl = kafka.sasl.as_ref().unwrap();
        assert_eq!((sasl.user.as_str(), sasl.password.as_str()), ("me", "hush"));
        assert_eq!(brokers.rabbitmq.options.partitions, 8);
        let wanted = postroom_redis::Options {
            stream: "shop:{{topic}}:{number}".to_owned(),
            partitions: 2,
            lease: Duration::from_secs(30),
            deliveries_max: None,
            keep: Duration::from_secs(86_400),
            length_max: Some(5000),
            replicas: 1,
            ..postroom_redis::Options::default()
        };
        assert_eq!(brokers.redis.options, wanted);
        assert!(!format!("{brokers:?}").contains("hush"), "{brokers:?}");
    }

    #[test]
    fn what_belongs_elsewhere_or_does_not_fit_is_said_at_once_and_without_secrets() {
        let toml = r#"
            [brokers.kafka]
            url = "kafka://me:hush@a:1"
            lease = "5s"
            prefetch = 10
            replication = 0
            producer = "fast"
            sasl = { username = "me", password = 1234567 }
            [brokers.rabbitmq]
            url = "amqp://me:hush@a"
            ca = "/nowhere/ca.pem"
            certificate = "/nowhere/client.pem"
            partitions = 65
            length_max = 5
            sasl = { mechanism = "plain", username = "me", password = "hush" }
            [brokers.redis]
            url = "redis://me:hush@a"
            replication = 3
            length_max = 0
            deliveries_max = 0
        "#;
        let said = read(toml).unwrap_err().to_string();
        assert!(!said.contains("hush") && !said.contains("1234567"), "{said}");
        insta::assert_snapshot!(said);
    }

    #[test]
    fn a_stream_without_a_number_needs_one_partition() {
        let redis = |keys: &str| {
            read(&format!(
                "[brokers.redis]\nurl = \"redis://a\"\nstream = \"{{topic}}\"\n{keys}"
            ))
        };
        assert_eq!(
            redis("").unwrap_err().to_string(),
            "brokers.redis.stream: the stream name \"{topic}\" has no {number}, and partitions is 4; set partitions to 1, or name the \
             streams \"{{topic}}:{number}\""
        );
        let one = redis("partitions = 1").unwrap();
        assert_eq!(one.brokers.redis.options.stream, "{topic}");
    }

    #[test]
    fn encryption_begins_with_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "not a certificate").unwrap();
        let said = |url: &str, key: &str| {
            let toml = format!("[brokers.redis]\nurl = \"{url}\"\n{key} = \"{}\"", file.display());
            read(&toml).unwrap_err().to_string()
        };
        assert_eq!(
            said("redis://a", "ca"),
            "brokers.redis.url: ca, certificate and key are for encrypted connections; write rediss://"
        );
        assert_eq!(
            said("rediss://a", "key"),
            "brokers.redis.certificate: comes together with its key, and the key with it"
        );
    }

    #[test]
    fn a_route_in_transactions_is_in_one_piece() {
        let said = read(
            r#"
            [brokers.kafka]
            url = "kafka://a:1"
            producer = "transactional"
            [[routes]]
            name = "orders"
            to = "kafka"
            shards = 2
            [[routes]]
            name = "noted"
            to = "log"
            shards = 2
            "#,
        );
        assert_eq!(
            said.unwrap_err().to_string(),
            "routes[0].shards: must be 1 with producer = \"transactional\": relays that share a route would fence off each other"
        );
    }
}
