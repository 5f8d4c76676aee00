//! From the driver's error to the library's: the one place that knows SQLite's result codes.

use postroom::{Error, ErrorKind};

/// For `map_err`: what failed, its kind, and, where people can do something about it, what that is.
pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(sqlx::Error) -> Error {
    move |source| {
        let doing = match advice(&source) {
            Some(advice) => format!("{}: {advice}", doing.into()),
            None => doing.into(),
        };
        Error::caused(kind(&source), doing, source)
    }
}

fn advice(error: &sqlx::Error) -> Option<&'static str> {
    let says = |words| {
        error
            .as_database_error()
            .is_some_and(|error| error.message().contains(words))
    };
    match primary_code(error)? {
        FULL => Some("the disk or the database is full, nothing was written; make room and try again"),
        BUSY | LOCKED => Some("another process holds the write lock; keep its transactions short"),
        _ if says("no such table") => Some("the tables are not there; run `postroom migrate` first"),
        _ => None,
    }
}

/// Whether another connection holds the lock that was asked for.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | LOCKED))
}

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const IO_ERROR: i32 = 10;
const FULL: i32 = 13;
const CANNOT_OPEN: i32 = 14;
const TOO_BIG: i32 = 18;
const CONSTRAINT: i32 = 19;

fn kind(error: &sqlx::Error) -> ErrorKind {
    match error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => {
            ErrorKind::Unavailable
        }
        sqlx::Error::Database(source) if source.is_unique_violation() => ErrorKind::Conflict,
        other => match primary_code(other) {
            Some(BUSY | LOCKED | IO_ERROR | FULL | CANNOT_OPEN) => ErrorKind::Unavailable,
            Some(TOO_BIG | CONSTRAINT) => ErrorKind::Invalid,
            _ => ErrorKind::Failed,
        },
    }
}

/// The driver gives the extended code, whose lowest byte is the primary one.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
