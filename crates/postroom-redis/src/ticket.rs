//! Tickets: each is a key with the hash of the ticket, which expires with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom_shared::Tickets;
use postroom_shared::ticket::{hash, random};
use redis::Value;

use crate::connection::Connection;
use crate::registry::ms;
use crate::shared_state::Prefix;

/// Tickets that every instance with this server accepts.
#[derive(Debug)]
pub(crate) struct RedisTickets {
    connection: Arc<Connection>,
    prefix: Prefix,
}

impl RedisTickets {
    pub(crate) fn new(connection: &Arc<Connection>, prefix: &Prefix) -> Self {
        Self {
            connection: Arc::clone(connection),
            prefix: prefix.clone(),
        }
    }

    fn key(&self, ticket: &str) -> String {
        self.prefix.name(&format!("ticket:{}", hash(ticket)))
    }
}

#[async_trait]
impl Tickets for RedisTickets {
    async fn issue(&self, content: &str, lifetime: Duration) -> Result<String> {
        let ticket = random();
        let mut set = redis::cmd("SET");
        set.arg(self.key(&ticket)).arg(content).arg("PX").arg(ms(lifetime));
        self.connection.command::<Value>("keep a ticket in Redis", set).await?;
        Ok(ticket)
    }

    async fn redeem(&self, ticket: &str) -> Result<Option<String>> {
        let mut take = redis::cmd("GETDEL");
        take.arg(self.key(ticket));
        self.connection.command("redeem a ticket in Redis", take).await
    }
}
