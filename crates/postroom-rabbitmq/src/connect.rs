//! A connection that is made when it is needed, and made again when it is gone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties};
use postroom::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::fault::{cause, step};
use crate::tls::Encryption;

/// A server that takes no connection by then is away.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// After a server that accepted a connection and said nothing: the driver waits for it on a thread, and these must not pile up.
const SILENCE: Duration = Duration::from_secs(10);
/// A peer that has been silent for twice as many seconds is dead.
const HEARTBEAT_SECONDS: u16 = 15;

/// The way to a broker.
pub(crate) struct Link {
    uri: AMQPUri,
    tls: Option<Encryption>,
    /// What the broker's operators see.
    name: &'static str,
    state: Mutex<State>,
    /// One connects, the others wait for it.
    turn: Semaphore,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    not_before: Option<Instant>,
}

impl Link {
    pub(crate) fn new(mut uri: AMQPUri, tls: Option<Encryption>, name: &'static str) -> Self {
        // Encrypted by us below the driver, if at all.
        uri.scheme = AMQPScheme::AMQP;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let limit = u64::try_from(CONNECT_MAX.as_millis()).unwrap_or(u64::MAX);
        uri.query.connection_timeout.get_or_insert(limit);
        Self {
            uri,
            tls,
            name,
            state: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// Which broker it leads to, without the password.
    pub(crate) fn broker(&self) -> String {
        let at = &self.uri.authority;
        format!("rabbitmq {}:{}/{}", at.host, at.port, self.uri.vhost)
    }

    /// A new channel, on a new connection if there is none.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let connection = self.connection().await?;
        step(|| "open a channel to RabbitMQ".to_owned(), connection.create_channel()).await
    }

    /// Whether RabbitMQ has told this connection to publish nothing.
    pub(crate) fn is_blocked(&self) -> bool {
        self.live().is_some_and(|connection| connection.status().blocked())
    }

    async fn connection(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let turn = self.turn.acquire().await;
        let _turn = turn.map_err(|closed| Error::caused(ErrorKind::Unavailable, self.doing(), closed))?;
        match self.live() {
            Some(connection) => Ok(connection),
            None => self.connect().await,
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>> {
        if self.state().not_before.is_some_and(|until| Instant::now() < until) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: it was silent a moment ago", self.doing()),
            ));
        }
        let properties = ConnectionProperties::default().with_connection_name(self.name.into());
        let uri = self.uri.clone();
        let connecting = async {
            match &self.tls {
                None => Connection::connect_uri(uri, properties).await,
                Some(tls) => Connection::connect_uri_with_runtime(uri, properties, tls.runtime()).await,
            }
        };
        let Ok(connected) = timeout(CONNECT_MAX, connecting).await else {
            self.state().not_before = Some(Instant::now() + SILENCE);
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: no answer in {CONNECT_MAX:?}", self.doing()),
            ));
        };
        // Whatever is the matter (a wrong password too), nothing gets there until it is mended.
        let connection =
            connected.map_err(|error| Error::caused(ErrorKind::Unavailable, self.doing(), cause(error)))?;
        let connection = Arc::new(connection);
        self.state().connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn live(&self) -> Option<Arc<Connection>> {
        let connection = self.state().connection.clone()?;
        connection.status().connected().then_some(connection)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doing(&self) -> String {
        format!(
            "connect to RabbitMQ at {}:{}",
            self.uri.authority.host, self.uri.authority.port
        )
    }
}

impl fmt::Debug for Link {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.doing())
    }
}
