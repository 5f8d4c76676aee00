//! Fan-out by Pub/Sub. Each listener has a connection of its own, which the server can close without harm to other calls.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Result};
use postroom_shared::fan_out::{MessageQueue, check_channels};
use postroom_shared::{FanOut, Listener, Message};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, Value};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connection::{self, Connection, failed};
use crate::shared_state::Prefix;

/// After this time, and again after each answer, a waiting listener asks whether its connection is alive.
const PING_EVERY: Duration = Duration::from_secs(5);
/// A connection that does not answer for this time is dead.
const PING_MAX: Duration = Duration::from_secs(5);
/// Messages in one request.
const PIPELINE_MAX: usize = 500;

/// Messages to all instances with this server.
pub(crate) struct RedisFanOut {
    client: Client,
    publisher: Connection,
    prefix: Prefix,
}

impl fmt::Debug for RedisFanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFanOut")
            .field("publisher", &self.publisher)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl RedisFanOut {
    pub(crate) fn new(client: &Client, publisher: Connection, prefix: &Prefix) -> Self {
        Self {
            client: client.clone(),
            publisher,
            prefix: prefix.clone(),
        }
    }

    /// A connection whose messages go into this queue.
    async fn connect(&self, queue: &Arc<MessageQueue>) -> Result<MultiplexedConnection> {
        const DOING: &str = "listen in Redis";
        // Only in this version of the protocol a connection with subscriptions can also ask.
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings)).map_err(|error| failed(DOING, error))?;
        let (queue, prefix) = (Arc::clone(queue), self.prefix.clone());
        let limit = self.publisher.limit();
        let config = AsyncConnectionConfig::new()
            .set_push_sender(move |push| {
                receive(&queue, &prefix, push);
                Ok::<(), ()>(())
            })
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(limit.min(PING_MAX)));
        connection::connect_with(&client, DOING, limit, &config).await
    }
}

#[async_trait]
impl FanOut for RedisFanOut {
    async fn publish(&self, messages: &[Message]) -> Result<()> {
        const DOING: &str = "publish messages in Redis";
        for some in messages.chunks(PIPELINE_MAX) {
            let publish = |message: &Message| {
                let mut command = redis::cmd("PUBLISH");
                command.arg(self.prefix.name(&message.channel)).arg(&message.body);
                command
            };
            let commands = some.iter().map(publish).collect();
            for answer in self.publisher.commands(DOING, commands, 0).await? {
                answer.map_err(|error| failed(DOING, error))?;
            }
        }
        Ok(())
    }

    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>> {
        check_channels(channels)?;
        let queue = Arc::new(MessageQueue::default());
        let mut connection = self.connect(&queue).await?;
        let channels: Vec<String> = channels.iter().map(|channel| self.prefix.name(channel)).collect();
        let subscribed = timeout(self.publisher.limit(), connection.subscribe(channels)).await;
        match subscribed {
            Ok(outcome) => outcome.map_err(|error| failed("subscribe in Redis", error))?,
            Err(_late) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "subscribe in Redis: no answer in time",
                ));
            }
        }
        Ok(Box::new(RedisListener {
            queue,
            pulse: ConnectionPulse {
                connection,
                ping: None,
                ping_at: Instant::now() + PING_EVERY,
            },
        }))
    }
}

/// Queues what the server sends. The driver calls this while it reads, so it must not wait.
fn receive(queue: &MessageQueue, prefix: &Prefix, push: PushInfo) {
    match (push.kind, <[Value; 2]>::try_from(push.data)) {
        (PushKind::Message, Ok([Value::BulkString(channel), Value::BulkString(body)])) => {
            let channel = prefix.strip(String::from_utf8_lossy(&channel).into_owned());
            queue.push(Message { channel, body });
        }
        (PushKind::Disconnection, _) => queue.fail("the connection of a listener to Redis was closed"),
        _ => {}
    }
}

#[derive(Debug)]
struct RedisListener {
    queue: Arc<MessageQueue>,
    pulse: ConnectionPulse,
}

#[async_trait]
impl Listener for RedisListener {
    async fn next(&mut self) -> Result<Message> {
        let Self { queue, pulse } = self;
        let error = tokio::select! {
            biased; // while messages come, the connection is alive
            outcome = queue.next() => return outcome,
            error = pulse.stops() => error,
        };
        queue.fail(error.report());
        Err(error)
    }
}

/// Asks a connection whether it is alive. All state is here, so that a call that is dropped loses nothing.
struct ConnectionPulse {
    connection: MultiplexedConnection,
    /// The question that has no answer yet.
    ping: Option<Pin<Box<dyn Future<Output = Result<()>> + Send>>>,
    /// When it is asked.
    ping_at: Instant,
}

impl fmt::Debug for ConnectionPulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPulse")
            .field("is_asked", &self.ping.is_some())
            .field("ping_at", &self.ping_at)
            .finish_non_exhaustive()
    }
}

impl ConnectionPulse {
    /// Returns when the connection does not answer.
    async fn stops(&mut self) -> Error {
        loop {
            if self.ping.is_none() {
                sleep_until(self.ping_at).await;
            }
            let ping = self.ping.get_or_insert_with(|| Box::pin(ping(self.connection.clone())));
            if let Err(error) = ping.await {
                return error;
            }
            self.ping = None;
            self.ping_at = Instant::now() + PING_EVERY;
        }
    }
}

async fn ping(mut connection: MultiplexedConnection) -> Result<()> {
    const DOING: &str = "reach Redis on the connection of a listener";
    let ping = redis::cmd("PING");
    match timeout(PING_MAX, ping.query_async::<Value>(&mut connection)).await {
        Ok(Ok(_pong)) => Ok(()),
        Ok(Err(error)) => Err(failed(DOING, error)),
        Err(_late) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{DOING}: no answer in time"),
        )),
    }
}
