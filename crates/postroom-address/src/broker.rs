//! The addresses of brokers.

use std::fmt;
use std::str::FromStr;

/// A kind of broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrokerKind {
    /// Kafka, and what speaks its protocol.
    Kafka,
    /// RabbitMQ.
    RabbitMq,
    /// Redis or Valkey.
    Redis,
}

impl BrokerKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kafka, Self::RabbitMq, Self::Redis];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
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

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How an address begins whose connections are encrypted.
    pub fn encrypted(self) -> &'static str {
        let [_, encrypted] = self.schemes();
        encrypted
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The address of a broker. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl(String);

impl BrokerUrl {
    /// Reads the address of a broker of this kind; the error does not repeat it.
    pub fn parse(kind: BrokerKind, text: &str) -> Result<Self, String> {
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
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether it asks for TLS.
    pub fn is_encrypted(&self) -> bool {
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
pub struct BrokerAddress {
    kind: BrokerKind,
    url: BrokerUrl,
}

impl BrokerAddress {
    /// Its kind, as the scheme says.
    pub fn kind(&self) -> BrokerKind {
        self.kind
    }

    /// With its password.
    pub fn secret(&self) -> &str {
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
        check(BrokerKind::Kafka, "kafka+ssl://a:1", "kafka+ssl://a:1");
        assert!(BrokerUrl::parse(BrokerKind::Kafka, "amqp://a").is_err());
        assert!(BrokerUrl::parse(BrokerKind::Kafka, "kafka://me:pass@a:1").is_err());
        assert!(BrokerUrl::parse(BrokerKind::Redis, "redis://").is_err());
    }
}
