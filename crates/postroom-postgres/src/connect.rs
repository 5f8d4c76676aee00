//! Connections: a pool for everything that is only tables, and a small one of the reader's, whose plans never change.
//!
//! Behind a transaction pooler nothing of a session survives a transaction: no settings, no prepared statements. sqlx
//! names every statement it prepares, even with its cache off, and sends prepare and execute as two round trips. So
//! there each use of a connection is one transaction from the moment it leaves the pool until it comes back, SeaORM's
//! included.

use std::str::FromStr;
use std::time::Duration;

use postroom::reconnect::{Closing, RETURN_MAX, TAKE_MAX, must_be_replaced, reconnect, within};
use postroom::{Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, PgPool};

use crate::error::driver;

const CONNECTIONS_MAX: u32 = 16;
/// Readers take turns in milliseconds; few of them serve many routes.
const READERS_MAX: u32 = 4;
const ACQUIRE_MAX: Duration = Duration::from_secs(10);
/// A connection that was used this recently is not asked whether it is still there: that would be a round trip each
/// time.
const FRESH_MAX: Duration = Duration::from_secs(2);

/// By primary key and nothing else: on a table that is empty or was never analysed the planner would gather and sort a
/// whole window for each page. The plans do not depend on the parameters, so they are made once.
const SETTINGS: [(&str, &str); 5] = [
    ("enable_bitmapscan", "off"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ISOLATION,
];
/// The database's default.
const ISOLATION: (&str, &str) = ("default_transaction_isolation", "read committed");

const POOLER_BEGIN: &str = include_str!("../sql/pooler_begin.sql");
const POOLER_BEGIN_READER: &str = include_str!("../sql/pooler_begin_reader.sql");
const POOLER_END: &str = include_str!("../sql/pooler_end.sql");

/// The settings of a store.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) main: PgPool,
    pub(crate) reader: PgPool,
    /// Each use of a connection is a transaction that must be ended.
    pub(crate) is_pooled: bool,
    options: PgConnectOptions,
}

impl Pools {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Error::invalid(
                "the address of a PostgreSQL server begins with postgres://",
            ));
        }
        let (url, is_pooled) = take_pooler(url)?;
        let options =
            PgConnectOptions::from_str(&url).map_err(|source| driver("read the address of PostgreSQL", source))?;
        knock(&options).await?;
        let closing = Closing::default();
        let (options, main) = if is_pooled {
            let options = options.statement_cache_capacity(0);
            let main = one_transaction_each(POOLER_BEGIN, &options, &closing).max_connections(CONNECTIONS_MAX);
            (options.clone(), main.connect_with(options).await)
        } else {
            let of_main = options.clone().options([ISOLATION]);
            let main = pool(&of_main, &closing).max_connections(CONNECTIONS_MAX);
            (options, main.connect_with(of_main).await)
        };
        let main = main.map_err(|source| driver("connect to PostgreSQL", source))?;
        closing.follow(&main);
        Ok(Self::of(main, options, is_pooled))
    }

    pub(crate) fn beside(main: PgPool) -> Self {
        let options = main.connect_options().as_ref().clone();
        Self::of(main, options, false)
    }

    fn of(main: PgPool, options: PgConnectOptions, is_pooled: bool) -> Self {
        let closing = Closing::default();
        let of_reader = quiet(options.clone());
        let (of_reader, reader) = if is_pooled {
            let reader = one_transaction_each(POOLER_BEGIN_READER, &of_reader, &closing);
            (of_reader, reader)
        } else {
            let of_reader = of_reader.options(SETTINGS);
            let reader = pool(&of_reader, &closing);
            (of_reader, reader)
        };
        let reader = reader.max_connections(READERS_MAX).connect_lazy_with(of_reader);
        closing.follow(&reader);
        Self {
            main,
            reader,
            is_pooled,
            options,
        }
    }

    /// Another pool to the same database, with no connection yet.
    pub(crate) fn another(&self, connections_max: u32) -> PgPool {
        let closing = Closing::default();
        let (pool, options) = if self.is_pooled {
            let pool = one_transaction_each(POOLER_BEGIN, &self.options, &closing);
            (pool, self.options.clone())
        } else {
            let options = self.options.clone().options([ISOLATION]);
            (pool(&options, &closing), options)
        };
        let pool = pool.max_connections(connections_max).connect_lazy_with(options);
        closing.follow(&pool);
        pool
    }
}

/// Connects once, to learn the reason if it fails: a pool retries until its timeout and then reports only the timeout. A temporary
/// error, such as a server that is starting, is left to the pool.
async fn knock(options: &PgConnectOptions) -> Result<()> {
    let waited = || format!("connect to PostgreSQL: no answer within {} s", ACQUIRE_MAX.as_secs());
    let answer = tokio::time::timeout(ACQUIRE_MAX, options.connect())
        .await
        .map_err(|late| Error::caused(ErrorKind::Unavailable, waited(), late))?;
    match answer {
        Err(source @ sqlx::Error::Io(_)) => Err(driver("connect to PostgreSQL", source)),
        Ok(connection) => connection
            .close()
            .await
            .map_err(|source| driver("connect to PostgreSQL", source)),
        Err(_) => Ok(()),
    }
}

/// A log line for each of many pulses a second helps nobody.
fn quiet(options: PgConnectOptions) -> PgConnectOptions {
    options.disable_statement_logging()
}

/// The driver gives a connection back by a ping without a deadline, and the pool counts it as in use until that is answered. A
/// statement that was given up may wait for a lock for hours, and a dead network never answers: so the first ping is ours.
fn pool(options: &PgConnectOptions, closing: &Closing) -> PgPoolOptions {
    let (taken, returned) = (options.clone(), (options.clone(), closing.clone()));
    PgPoolOptions::new()
        .acquire_timeout(ACQUIRE_MAX)
        .test_before_acquire(false)
        .idle_timeout(None) // the pool would close the connection, see must_be_replaced
        .max_lifetime(None)
        .before_acquire(move |connection, meta| {
            let options = taken.clone();
            Box::pin(async move {
                if meta.idle_for > FRESH_MAX && must_be_replaced(within(TAKE_MAX, connection.ping()).await)? {
                    *connection = within(TAKE_MAX, options.connect()).await?;
                }
                Ok(true)
            })
        })
        .after_release(move |connection, _| {
            let (options, closing) = returned.clone();
            Box::pin(async move {
                if must_be_replaced(within(RETURN_MAX, connection.ping()).await)? {
                    *connection = reconnect(&closing, || options.connect()).await?;
                }
                Ok(true)
            })
        })
}

/// Connections whose every use is one transaction, begun when they leave the pool and ended when they come back. They
/// come back on tasks of their own, when their users have gone on already: who wants to know that something is
/// committed uses a transaction.
fn one_transaction_each(begin: &'static str, options: &PgConnectOptions, closing: &Closing) -> PgPoolOptions {
    let (taken, returned) = (options.clone(), (options.clone(), closing.clone()));
    PgPoolOptions::new()
        .acquire_timeout(ACQUIRE_MAX)
        .test_before_acquire(false)
        .idle_timeout(None) // the pool would close the connection, see must_be_replaced
        .max_lifetime(None)
        .after_connect(move |connection, _| Box::pin(async move { connection.execute(begin).await.map(drop) }))
        .before_acquire(move |connection, _| {
            let options = taken.clone();
            Box::pin(async move {
                if must_be_replaced(within(TAKE_MAX, connection.execute(begin)).await)? {
                    *connection = within(TAKE_MAX, options.connect()).await?;
                    within(TAKE_MAX, connection.execute(begin)).await?;
                }
                Ok(true)
            })
        })
        .after_release(move |connection, _| {
            let (options, closing) = returned.clone();
            Box::pin(async move {
                if must_be_replaced(within(RETURN_MAX, end(connection)).await)? {
                    *connection = reconnect(&closing, || options.connect()).await?;
                }
                Ok(true)
            })
        })
}

/// Commits what `begin` began, unless its user has; what has failed is rolled back.
async fn end(connection: &mut PgConnection) -> sqlx::Result<()> {
    if connection.execute(POOLER_END).await.is_err() {
        connection.execute("rollback").await?;
    }
    Ok(())
}

/// Takes `pooler=transaction` out of an address: it is ours, the driver does not know it.
fn take_pooler(url: &str) -> Result<(String, bool)> {
    let Some((address, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), false));
    };
    let (ours, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| pair.starts_with("pooler="));
    let is_pooled = match ours.as_slice() {
        [] | ["pooler=none"] => false,
        ["pooler=transaction"] => true,
        _ => {
            return Err(Error::invalid(
                "the address has an unknown pooler; use pooler=transaction or pooler=none, once",
            ));
        }
    };
    let url = if others.is_empty() {
        address.to_owned()
    } else {
        format!("{address}?{}", others.join("&"))
    };
    Ok((url, is_pooled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pooler_is_taken_out_of_an_address() {
        let check = |url: &str, expected: (&str, bool)| {
            assert_eq!(take_pooler(url).unwrap(), (expected.0.to_owned(), expected.1), "{url}");
        };
        check("postgres://h/d", ("postgres://h/d", false));
        check("postgres://h/d?pooler=transaction", ("postgres://h/d", true));
        check(
            "postgres://h/d?a=1&pooler=transaction&b=2",
            ("postgres://h/d?a=1&b=2", true),
        );
        check("postgres://h/d?pooler=none", ("postgres://h/d", false));
        assert!(take_pooler("postgres://h/d?pooler=statement").is_err());
    }
}
