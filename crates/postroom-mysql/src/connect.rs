//! Connections: pools that close a connection which does not answer.

use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, MySqlConnection};

use crate::error::db;

/// How long a pooled connection may have rested before it is tried out when it is taken again. Below that a server
/// that went away costs one error, and a pulse costs one round trip.
const REST_MAX: Duration = Duration::from_secs(1);
/// How long a call waits for a connection before it says that the database is away.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);
/// How long a connection that is taken from the pool may take to answer.
const TAKE_MAX: Duration = Duration::from_secs(2);
/// And one that is given back.
const RETURN_MAX: Duration = Duration::from_secs(5);
/// Between two attempts to replace a connection that does not answer, and how many there are: about ten minutes.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
const RECONNECTS_MAX: u32 = 240;

/// A rollback, because a BEGIN that was given up leaves a transaction that the driver does not know of. And the session's own limit for
/// idle time is taken back, which MySQL has in place of one for idle transactions: with the limit of a transaction, each connection
/// that rests in the pool would be closed after seconds, and after an outage faster than new ones are opened.
const RETURN: &str = "rollback; set session wait_timeout = default";

/// The driver gives a connection back by a ping without a deadline, and the pool counts it as in use until that is answered. A
/// statement that was given up may wait for a lock for hours, and a dead network never answers: so we ask first, with a deadline.
/// See [`RETURN`].
pub(crate) fn pool(connections_max: u32, options: &MySqlConnectOptions) -> MySqlPoolOptions {
    let (taken, returned) = (options.clone(), options.clone());
    MySqlPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_MAX)
        .test_before_acquire(false)
        .idle_timeout(None) // the pool would close the connection, see must_be_replaced
        .max_lifetime(None)
        .before_acquire(move |connection, rest| {
            let options = taken.clone();
            Box::pin(async move {
                if rest.idle_for > REST_MAX && must_be_replaced(within(TAKE_MAX, connection.ping()).await)? {
                    *connection = within(TAKE_MAX, options.connect()).await?;
                }
                Ok(true)
            })
        })
        .after_release(move |connection, _| {
            let options = returned.clone();
            Box::pin(async move {
                if must_be_replaced(within(RETURN_MAX, connection.execute(RETURN)).await)? {
                    *connection = connected(&options).await?;
                }
                Ok(true)
            })
        })
}

/// Whether a connection must be replaced: it gave no answer in time, or refuses, for example inside an aborted transaction. It is
/// replaced in its place and dropped. The pool would close it, and the driver's close of an encrypted connection waits for the peer
/// without a deadline, while the connection counts as in use. A connection that is broken is left to the pool.
fn must_be_replaced<T>(answer: sqlx::Result<T>) -> sqlx::Result<bool> {
    match answer {
        Ok(_) => Ok(false),
        Err(sqlx::Error::Database(_)) => Ok(true),
        Err(sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => Ok(true),
        Err(error) => Err(error),
    }
}

/// A new connection, as soon as the server answers again.
async fn connected(options: &MySqlConnectOptions) -> sqlx::Result<MySqlConnection> {
    for _ in 0..RECONNECTS_MAX {
        if let Ok(connection) = within(TAKE_MAX, options.connect()).await {
            return Ok(connection);
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
    within(TAKE_MAX, options.connect()).await
}

/// Another pool to the same database, with no connection yet.
pub(crate) fn beside(other: &MySqlPool, connections_max: u32) -> MySqlPool {
    let options = (*other.connect_options()).clone();
    pool(connections_max, &options).connect_lazy_with(options)
}

/// Work on a connection with a deadline. The pool closes a connection that misses it.
async fn within<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}

/// Connects once. A pool retries until its acquire timeout expires and then reports only the timeout, not the cause. Errors that
/// may pass, such as too many connections, are left to the pool.
pub(crate) async fn knock(options: &MySqlConnectOptions) -> Result<()> {
    let waited = || format!("connect to MySQL: no answer within {} s", ACQUIRE_MAX.as_secs());
    let answer = tokio::time::timeout(ACQUIRE_MAX, options.connect())
        .await
        .map_err(|late| Error::caused(ErrorKind::Unavailable, waited(), late))?;
    match answer {
        Err(source @ sqlx::Error::Io(_)) => Err(db("connect to MySQL", source)),
        Ok(connection) => connection
            .close()
            .await
            .map_err(|source| db("connect to MySQL", source)),
        Err(_) => Ok(()),
    }
}
