//! A connection that is opened on first use and reopened after it was lost.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties};
use postroom::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::error::{cause, with_timeout};
use crate::tls::TlsConfig;

/// Timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Backoff after a connect timeout. The driver keeps a thread waiting for such a server, and these threads must not accumulate.
const RETRY_AFTER_TIMEOUT: Duration = Duration::from_secs(10);
/// Heartbeat interval. The connection fails after two intervals without data.
const HEARTBEAT_SECONDS: u16 = 15;

/// Opens the connection to a broker and keeps it.
pub(crate) struct Connector {
    uri: AMQPUri,
    tls: Option<TlsConfig>,
    /// The connection name in RabbitMQ's management tools.
    name: &'static str,
    state: Mutex<State>,
    /// Allows one connection attempt at a time; other callers wait for it.
    connect_permit: Semaphore,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    retry_at: Option<Instant>,
}

impl Connector {
    pub(crate) fn new(mut uri: AMQPUri, tls: Option<TlsConfig>, name: &'static str) -> Self {
        // `TlsReactor` encrypts the connection below the driver, so the driver must use plain AMQP.
        uri.scheme = AMQPScheme::AMQP;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let limit = u64::try_from(CONNECT_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        uri.query.connection_timeout.get_or_insert(limit);
        Self {
            uri,
            tls,
            name,
            state: Mutex::default(),
            connect_permit: Semaphore::new(1),
        }
    }

    /// The broker's name, without the password.
    pub(crate) fn broker(&self) -> String {
        let at = &self.uri.authority;
        format!("rabbitmq {}:{}/{}", at.host, at.port, self.uri.vhost)
    }

    /// Opens a channel. Connects first if there is no connection.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let connection = self.connection().await?;
        with_timeout(|| "open a channel to RabbitMQ".to_owned(), connection.create_channel()).await
    }

    /// Whether RabbitMQ has blocked publishing on this connection.
    pub(crate) fn is_blocked(&self) -> bool {
        self.live().is_some_and(|connection| connection.status().blocked())
    }

    async fn connection(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let permit = self.connect_permit.acquire().await;
        let _permit = permit.map_err(|closed| Error::caused(ErrorKind::Unavailable, self.doing(), closed))?;
        match self.live() {
            Some(connection) => Ok(connection),
            None => self.connect().await,
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>> {
        if self.state().retry_at.is_some_and(|until| Instant::now() < until) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: waiting after a connect timeout", self.doing()),
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
        let Ok(connected) = timeout(CONNECT_TIMEOUT, connecting).await else {
            self.state().retry_at = Some(Instant::now() + RETRY_AFTER_TIMEOUT);
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: timeout: no connection within {CONNECT_TIMEOUT:?}", self.doing()),
            ));
        };
        // Every connect error, also a wrong password, means that the broker is unavailable.
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

impl fmt::Debug for Connector {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({})", self.doing())
    }
}
