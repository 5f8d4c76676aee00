//! The value of `--to`: where the relay of a bench delivers to.

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use postroom_bench::{Receiver, Target as Measured};

use crate::broker::BrokerAddress;

/// `subscriber`, `null` or the address of a broker.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Here(Receiver),
    Broker(BrokerAddress),
}

impl Target {
    /// The same for the measurement.
    pub(super) fn open(self, is_transactional: bool) -> Result<Measured> {
        Ok(match self {
            Self::Here(receiver) => Measured::Here(receiver),
            Self::Broker(address) => Measured::Broker {
                broker: address.open()?,
                is_transactional,
            },
        })
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
