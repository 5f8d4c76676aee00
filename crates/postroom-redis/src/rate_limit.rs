//! A rate limit that all instances share, on one key per client.

use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom_shared::{RateLimiter, Taken};

use crate::broker::Shared;
use crate::connection::Connection;
use crate::names::Names;
use crate::script::{self, Call};

/// A request waits for its count, so the timeout is short. The caller goes on without the shared count then.
const TIMEOUT_MAX: Duration = Duration::from_millis(500);

/// A rate limit on Redis. Its keys contain a hash of the client instead of the client, and expire with the window.
#[derive(Debug)]
pub struct RedisRateLimiter {
    connection: Connection,
    names: Names,
    /// Stands before every key.
    prefix: String,
}

impl RedisRateLimiter {
    /// The same for one of several systems that share the server: each counts its own clients.
    #[must_use]
    pub fn prefixed(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    pub(crate) fn new(shared: &Shared) -> Self {
        let timeout = shared.options.timeout.min(TIMEOUT_MAX);
        Self {
            connection: Connection::new(&shared.client, timeout),
            names: shared.names.clone(),
            prefix: String::new(),
        }
    }
}

#[async_trait]
impl RateLimiter for RedisRateLimiter {
    /// If the connection is lost during the call, the request may be counted twice.
    async fn take(&self, key: &str, limit: u32, window: Duration) -> Result<Taken> {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let key = self.names.rate(&format!("{}{key}", self.prefix));
        let call = Call::on(&script::TAKE, &[key]).arg(window_ms);
        let (number, left_ms): (u64, u64) = self.connection.call("count a request in Redis", call).await?;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Taken::of(number, limit, Duration::from_millis(left_ms)))
    }
}
