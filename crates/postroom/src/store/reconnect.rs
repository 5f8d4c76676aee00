//! How a store's pool replaces a connection that does not answer. The hooks of the pool are in the store crates, which also open the
//! connections.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{self, Shared};
use sqlx::pool::CloseEvent;
use sqlx::{Database, Pool};

/// How long a connection that is taken from the pool may take to answer.
pub const TAKE_MAX: Duration = Duration::from_secs(2);
/// How long a connection that is given back may take to answer.
pub const RETURN_MAX: Duration = Duration::from_secs(5);
/// Between two attempts to replace a connection that does not answer, and how many there are: about ten minutes.
const PAUSE: Duration = Duration::from_millis(500);
const ATTEMPTS_MAX: u32 = 240;

/// Tells the hooks of a pool that the pool was closed. sqlx gives a hook no handle of its pool, and a handle that a hook kept would
/// keep the pool alive.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<OnceLock<Shared<CloseEvent>>>);

impl Closing {
    /// Follows this pool, once.
    pub fn follow<DB: Database>(&self, pool: &Pool<DB>) {
        self.0.get_or_init(|| pool.close_event().shared());
    }

    async fn closed(&self) {
        match self.0.get() {
            Some(event) => event.clone().await,
            None => future::pending().await,
        }
    }
}

/// Whether a connection must be replaced: it gave no answer in time, or refuses, for example inside an aborted transaction. It is
/// replaced in its place and dropped. The pool would close it, and the driver's close of an encrypted connection waits for the peer
/// without a deadline, while the connection counts as in use. A connection that is broken is left to the pool.
pub fn must_be_replaced<T>(answer: sqlx::Result<T>) -> sqlx::Result<bool> {
    match answer {
        Ok(_) => Ok(false),
        Err(sqlx::Error::Database(_)) => Ok(true),
        Err(sqlx::Error::Io(error)) if error.kind() == io::ErrorKind::TimedOut => Ok(true),
        Err(error) => Err(error),
    }
}

/// A new connection, as soon as the server answers again. The pool counts the old one as in use until then, and waits for it when it
/// is closed: so the attempts end with the pool.
pub async fn reconnect<C, W>(closing: &Closing, connect: impl FnMut() -> W) -> sqlx::Result<C>
where
    W: Future<Output = sqlx::Result<C>>,
{
    tokio::select! {
        biased;
        () = closing.closed() => Err(sqlx::Error::PoolClosed),
        connection = attempts(connect) => connection,
    }
}

async fn attempts<C, W>(mut connect: impl FnMut() -> W) -> sqlx::Result<C>
where
    W: Future<Output = sqlx::Result<C>>,
{
    for _ in 0..ATTEMPTS_MAX {
        if let Ok(connection) = within(TAKE_MAX, connect()).await {
            return Ok(connection);
        }
        tokio::time::sleep(PAUSE).await;
    }
    within(TAKE_MAX, connect()).await
}

/// Work on a connection with a deadline. The pool closes a connection that misses it.
pub async fn within<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_refuses_or_hangs_is_replaced() {
        let check = |error: sqlx::Error, expected: Option<bool>| {
            let says = error.to_string();
            assert_eq!(must_be_replaced::<()>(Err(error)).ok(), expected, "{says}");
        };
        assert!(matches!(must_be_replaced(Ok(())), Ok(false)));
        check(sqlx::Error::Io(io::ErrorKind::TimedOut.into()), Some(true));
        check(sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()), None);
        check(sqlx::Error::WorkerCrashed, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_back_is_found() {
        let mut refusals = 3;
        let connect = || {
            let is_refused = refusals > 0;
            refusals -= i32::from(is_refused);
            async move {
                match is_refused {
                    true => future::pending().await,
                    false => Ok("connected"),
                }
            }
        };
        assert_eq!(reconnect(&Closing::default(), connect).await.ok(), Some("connected"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_away_is_given_up() {
        let begun = tokio::time::Instant::now();
        let connect = async || Err::<(), _>(sqlx::Error::Io(io::ErrorKind::ConnectionRefused.into()));
        let given_up = reconnect(&Closing::default(), connect).await;
        assert!(matches!(given_up, Err(sqlx::Error::Io(_))), "{given_up:?}");
        assert_eq!(begun.elapsed(), PAUSE * ATTEMPTS_MAX);
    }
}
