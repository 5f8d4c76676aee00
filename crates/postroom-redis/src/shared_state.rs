//! State that the instances of a service share on one server: the ports of `postroom-shared`.

use std::sync::Arc;
use std::time::Duration;

use postroom::{Error, Result};
use postroom_shared::SharedState;

use crate::broker::{Redis, Shared};
use crate::connection::Connection;
use crate::fan_out::RedisFanOut;
use crate::rate_limit::RedisRateLimiter;
use crate::registry::RedisRegistry;
use crate::tally::RedisTally;
use crate::ticket::RedisTickets;

/// Clients wait for these calls, so the timeout is shorter than that of the broker.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);

impl Redis {
    /// State that all instances with this server share. Keys and channels have exactly the names that the callers give them. Pub/Sub
    /// knows no databases: systems that share a server need prefixes, also if their databases differ.
    pub fn shared_state(&self) -> SharedState {
        state(self.shared(), &Prefix::default())
    }

    /// The same for one of several systems that share the server: this stands before every key and every channel.
    pub fn prefixed_shared_state(&self, prefix: &str) -> Result<SharedState> {
        Ok(state(self.shared(), &Prefix::new(prefix)?))
    }

    /// Sums changes of counters for all instances with this server.
    pub fn tally(&self) -> RedisTally {
        RedisTally::new(&Arc::new(connection(self.shared())), &Prefix::default())
    }
}

fn state(shared: &Shared, prefix: &Prefix) -> SharedState {
    let calls = Arc::new(connection(shared));
    SharedState {
        rate_limiter: Arc::new(RedisRateLimiter::new(shared).prefixed(prefix.0.as_ref())),
        // A burst of messages has a connection of its own.
        fan_out: Arc::new(RedisFanOut::new(&shared.client, connection(shared), prefix)),
        registry: Arc::new(RedisRegistry::new(&calls, prefix)),
        tally: Arc::new(RedisTally::new(&calls, prefix)),
        tickets: Arc::new(RedisTickets::new(&calls, prefix)),
        is_shared: true,
    }
}

fn connection(shared: &Shared) -> Connection {
    Connection::new(&shared.client, shared.options.timeout.min(TIMEOUT_MAX))
}

/// Stands before every key and channel of a system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefix(Arc<str>);

impl Prefix {
    fn new(text: &str) -> Result<Self> {
        match text.contains(['{', '}']) {
            true => Err(Error::invalid(format!(
                "the prefix {text:?} has braces; they would be the hash tag of all keys"
            ))),
            false => Ok(Self(text.into())),
        }
    }

    /// A key or channel with this name.
    pub(crate) fn name(&self, name: &str) -> String {
        [self.0.as_ref(), name].concat()
    }

    /// The name of a channel without the prefix.
    pub(crate) fn strip(&self, channel: String) -> String {
        match channel.strip_prefix(self.0.as_ref()) {
            Some(name) if name.len() < channel.len() => name.to_owned(),
            _ => channel,
        }
    }
}

/// A key in the slot of another one: a cluster keeps both on one node. A key without a hash tag becomes the tag.
pub(crate) fn beside(key: &str, word: &str) -> String {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    match tag.is_some_and(|(tag, _)| !tag.is_empty()) {
        true => format!("{key}:{word}"),
        false => format!("{{{key}}}:{word}"),
    }
}
