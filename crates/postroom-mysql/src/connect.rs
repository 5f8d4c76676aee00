//! Connections: pools that close a connection which does not answer.

use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

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

/// A rollback, because a BEGIN that was given up leaves a transaction that the driver does not know of. And the session's own limit for
/// idle time is taken back, which MySQL has in place of one for idle transactions: with the limit of a transaction, each connection
/// that rests in the pool would be closed after seconds, and after an outage faster than new ones are opened.
const RETURN: &str = "rollback; set session wait_timeout = default";

/// The driver gives a connection back by a ping without a deadline, and the pool counts it as in use until that is answered. A
/// statement that was given up may wait for a lock for hours, and a dead network never answers: so we ask first, with a deadline.
/// See [`RETURN`].
pub(crate) fn pool(connections_max: u32) -> MySqlPoolOptions {
    MySqlPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_MAX)
        .test_before_acquire(false)
        .before_acquire(|connection, rest| {
            Box::pin(async move {
                if rest.idle_for > REST_MAX {
                    within(TAKE_MAX, connection.ping()).await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move { within(RETURN_MAX, connection.execute(RETURN)).await.map(|_| true) })
        })
}

/// Another pool to the same database, with no connection yet.
pub(crate) fn beside(other: &MySqlPool, connections_max: u32) -> MySqlPool {
    pool(connections_max).connect_lazy_with((*other.connect_options()).clone())
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
