//! The value of `--to`: where the relay of a bench delivers to.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use postroom::Broker;
use postroom_bench::{Plain, Receiver, Target as Measured, TargetBroker};

use crate::broker::BrokerAddress;
use crate::command::trial::client;

/// `subscriber`, `null` or the address of a broker.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Here(Receiver),
    Broker(BrokerAddress),
}

impl Target {
    /// The same for the measurement.
    pub(super) fn open(self, is_transactional: bool) -> Measured {
        match self {
            Self::Here(receiver) => Measured::Here(receiver),
            Self::Broker(address) => Measured::Broker(Arc::new(Addressed {
                address,
                is_transactional,
            })),
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::Here(Receiver::Subscriber)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "subscriber" => Ok(Self::Here(Receiver::Subscriber)),
            "null" => Ok(Self::Here(Receiver::Null)),
            address => {
                let broker = address.parse().map(Self::Broker);
                broker.map_err(|error| format!("name subscriber, null or a broker, whose address {error}"))
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(Receiver::Subscriber) => f.write_str("subscriber"),
            Self::Here(Receiver::Null) => f.write_str("null"),
            Self::Broker(address) => address.fmt(f),
        }
    }
}

/// The broker at an address.
#[derive(Debug)]
struct Addressed {
    address: BrokerAddress,
    is_transactional: bool,
}

#[async_trait]
impl TargetBroker for Addressed {
    fn open(&self, topic: &str) -> Result<Arc<dyn Broker>> {
        match self.is_transactional {
            true => self.address.open_transactional(topic),
            false => self.address.open(),
        }
    }

    async fn create_topic(&self, topic: &str) -> Result<()> {
        self.address.create_topic(topic).await
    }

    async fn client(&self, topic: &str) -> Result<Plain> {
        client(&self.address, topic).await
    }
}
