//! Connections: pools that close a connection which does not answer.

use std::time::Duration;

use postroom::reconnect::{Closing, RETURN_MAX, TAKE_MAX, must_be_replaced, reconnect, within};
use postroom::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::error::db;

/// How long a pooled connection may have rested before it is tried out when it is taken again. Below that a server
/// that went away costs one error, and a pulse costs one round trip.
const REST_MAX: Duration = Duration::from_secs(1);
/// How long a call waits for a connection before it says that the database is away.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);

/// A rollback, because a BEGIN that was given up leaves a transaction that the driver does not know of. And the session's own limit for
/// idle time is taken back, which MySQL has in place of one for idle transactions: with the limit of a transaction, each connection
/// that rests in the pool would be closed after seconds, and after an outage faster than new ones are opened.
const RETURN: &str = "rollback; set session wait_timeout = default";

/// The driver gives a connection back by a ping without a deadline, and the pool counts it as in use until that is answered. A
/// statement that was given up may wait for a lock for hours, and a dead network never answers: so we ask first, with a deadline.
/// See [`RETURN`].
fn pool(connections_max: u32, options: &MySqlConnectOptions, closing: &Closing) -> MySqlPoolOptions {
    let (taken, returned) = (options.clone(), (options.clone(), closing.clone()));
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
            let (options, closing) = returned.clone();
            Box::pin(async move {
                if must_be_replaced(within(RETURN_MAX, connection.execute(RETURN)).await)? {
                    *connection = reconnect(&closing, || options.connect()).await?;
                }
                Ok(true)
            })
        })
}

/// A pool with one connection, or the reason why there is none.
pub(crate) async fn connect(connections_max: u32, options: MySqlConnectOptions) -> Result<MySqlPool> {
    knock(&options).await?;
    let closing = Closing::default();
    let connected = pool(connections_max, &options, &closing).connect_with(options).await;
    let pool = connected.map_err(|source| db("connect to MySQL", source))?;
    closing.follow(&pool);
    Ok(pool)
}

/// Another pool to the same database, with no connection yet.
pub(crate) fn beside(other: &MySqlPool, connections_max: u32) -> MySqlPool {
    let options = (*other.connect_options()).clone();
    let closing = Closing::default();
    let pool = pool(connections_max, &options, &closing).connect_lazy_with(options);
    closing.follow(&pool);
    pool
}

/// Connects once. A pool retries until its acquire timeout expires and then reports only the timeout, not the cause. Errors that
/// may pass, such as too many connections, are left to the pool.
async fn knock(options: &MySqlConnectOptions) -> Result<()> {
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
