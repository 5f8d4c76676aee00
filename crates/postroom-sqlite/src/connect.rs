//! Opening the file: where it is, and how each connection is set up.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use postroom::{Error, ErrorKind, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqliteConnection, SqlitePool};

use crate::error;
use crate::permission;

/// How long a writer waits for the write lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages and pulses are short, so a few connections serve many routes.
const READERS_MAX: u32 = 4;
/// The write-ahead log is cut back to this size after it had to grow, for example behind a long reader.
const WAL_BYTES_KEPT: &str = "67108864";
/// Pages of log after which a commit folds it into the file: small enough that the one commit that does it takes
/// milliseconds, large enough that most do not.
const CHECKPOINT_PAGES: &str = "1000";
/// Page cache in KiB (SQLite wants it negative). Readers go through the file once and gain nothing from a large one.
const WRITER_CACHE_KIB: &str = "-8192";
const READER_CACHE_KIB: &str = "-2048";

/// The writer pool of one connection, and the reader pool.
pub(crate) async fn pools(path_or_url: &str) -> Result<(SqlitePool, SqlitePool)> {
    let (file, synchronous) = parse(path_or_url)?;
    create_folder(&file)?;
    permission::keep_private(&file);
    let writer = shared(&file, synchronous)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("cache_size", WRITER_CACHE_KIB);
    let writer = connect_patiently(pool_options().max_connections(1), writer, &file).await?;
    let reader = reader(&file, synchronous);
    let readers = connect_patiently(pool_options().max_connections(READERS_MAX), reader, &file).await?;
    Ok((writer, readers))
}

/// Readers of a file that is there. In a folder that this user may not write to, SQLite cannot make the files beside the
/// database that it needs to share it with a writer; if there are none, there is no writer either, and they are not needed.
pub(crate) async fn readers_alone(path_or_url: &str) -> Result<SqlitePool> {
    let (file, synchronous) = parse(path_or_url)?;
    let pool = || pool_options().max_connections(READERS_MAX);
    let shared = connect_patiently(pool(), reader(&file, synchronous), &file).await;
    let log = PathBuf::from(format!("{}-wal", file.display()));
    match shared {
        Err(_) if file.exists() && !log.exists() => {
            connect_patiently(pool(), reader(&file, synchronous).immutable(true), &file).await
        }
        other => other,
    }
}

fn shared(file: &Path, synchronous: SqliteSynchronous) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .synchronous(synchronous)
        .pragma("journal_size_limit", WAL_BYTES_KEPT)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
}

fn reader(file: &Path, synchronous: SqliteSynchronous) -> SqliteConnectOptions {
    shared(file, synchronous)
        .read_only(true)
        .pragma("query_only", "on")
        .pragma("cache_size", READER_CACHE_KIB)
}

/// The options of both pools. A file does not go away like a server: connections live as long as the pool and are
/// not tested before use; but one whose transaction SQLite has ended by itself is closed when it comes back.
///
/// For [`crate::Sqlite::from_pools`] with connect options of your own.
pub fn pool_options() -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_release(|connection: &mut SqliteConnection, _| {
            Box::pin(async move {
                if !connection.is_in_transaction() {
                    return Ok(true);
                }
                // Most often a dropped transaction whose rollback is still queued; the ping comes after it. But "disk
                // full" and I/O errors make SQLite end the transaction by itself: then the driver counts it as open
                // for ever and could not begin another one on this connection.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
}

/// Switching a new file to WAL needs it exclusively, and SQLite does not wait for that: when several processes
/// open a new file at once, all but one are told "locked".
async fn connect_patiently(pool: SqlitePoolOptions, options: SqliteConnectOptions, file: &Path) -> Result<SqlitePool> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Ok(connected) => return Ok(connected),
            Err(source) if error::is_busy(&source) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(source) => {
                return Err(error::while_doing(format!("open the database {}", file.display()))(
                    source,
                ));
            }
        }
    }
}

/// The file and how durable a commit is. A URL is read as sqlx reads it; a path is taken as it is.
fn parse(path_or_url: &str) -> Result<(PathBuf, SqliteSynchronous)> {
    let (location, query) = match path_or_url.strip_prefix("sqlite:") {
        None => return Ok((refuse_memory(path_or_url, path_or_url.into())?, SqliteSynchronous::Full)),
        Some(_) => path_or_url.split_once('?').unwrap_or((path_or_url, "")),
    };
    let mut synchronous = SqliteSynchronous::Full;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter {
            "synchronous=full" => synchronous = SqliteSynchronous::Full,
            "synchronous=normal" => synchronous = SqliteSynchronous::Normal,
            // Other programs need it to create a file; this store always creates it.
            "mode=rwc" => (),
            other => {
                return Err(Error::invalid(format!(
                    "{path_or_url}: unknown parameter {other:?}; use synchronous=full (the default) or synchronous=normal"
                )));
            }
        }
    }
    let options = SqliteConnectOptions::from_str(location).map_err(|source| {
        Error::caused(
            ErrorKind::Invalid,
            format!("{path_or_url} is not an address of an SQLite file"),
            source,
        )
    })?;
    Ok((refuse_memory(location, options.get_filename().to_owned())?, synchronous))
}

fn refuse_memory(location: &str, file: PathBuf) -> Result<PathBuf> {
    if location.ends_with(":memory:") || file.as_os_str().is_empty() {
        return Err(Error::invalid(format!(
            "{location:?} names no file; writer and readers are separate connections, so give a path such as postroom-data/postroom.db"
        )));
    }
    Ok(file)
}

fn create_folder(file: &Path) -> Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => permission::create_folder(folder).map_err(|source| {
            Error::caused(
                ErrorKind::Failed,
                format!("create the folder {}", folder.display()),
                source,
            )
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, file: &str, synchronous: &str) {
        let (parsed, found) = parse(given).unwrap();
        assert_eq!(
            (parsed.to_str().unwrap(), format!("{found:?}").as_str()),
            (file, synchronous),
            "{given}"
        );
    }

    #[test]
    fn a_path_or_a_url_names_the_file() {
        check("postroom.db", "postroom.db", "Full");
        check("/var/lib/a?b.db", "/var/lib/a?b.db", "Full");
        check("sqlite:postroom.db", "postroom.db", "Full");
        check("sqlite://data/postroom.db", "data/postroom.db", "Full");
        check("sqlite:///var/lib/postroom.db", "/var/lib/postroom.db", "Full");
        check("sqlite://a%20b.db?synchronous=normal", "a b.db", "Normal");
        check("sqlite://a.db?mode=rwc&synchronous=full", "a.db", "Full");
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for given in [
            "",
            ":memory:",
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite://",
            "sqlite://a.db?cache=shared",
        ] {
            assert_eq!(parse(given).unwrap_err().kind(), ErrorKind::Invalid, "{given}");
        }
    }
}
