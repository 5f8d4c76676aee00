//! From the driver's error to the library's: the one place that knows the server's error numbers.

use postroom::{Error, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

/// A row lock was not granted in time.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// The user lacks a privilege.
const PRIVILEGE_MISSING: u16 = 1227;

/// An error of the driver, with its kind and, where people can do something about it, what that is.
pub(crate) fn db(doing: &str, source: sqlx::Error) -> Error {
    let kind = kind(&source);
    let advice = number(&source).and_then(advice);
    match advice.or_else(|| refusal(&source)).or_else(|| unencrypted(&source)) {
        Some(advice) => Error::caused(kind, format!("{doing}: {advice}"), source),
        None => Error::caused(kind, doing, source),
    }
}

/// What to do when nobody listens at the address.
fn refusal(error: &sqlx::Error) -> Option<&'static str> {
    let is_refused = matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
    is_refused.then_some("nobody listens at the address; start the server, or mend host and port")
}

/// What to do when the server wants a password that only an encrypted connection may carry. The driver could also encrypt
/// the password alone, with RSA, but the implementation that it has for that leaks by its timing.
fn unencrypted(error: &sqlx::Error) -> Option<&'static str> {
    let says = error.to_string();
    says.contains("RSA auth backend disabled").then_some(
        "the server takes this password over an encrypted connection only: remove ssl-mode=disabled from the address          (ssl-mode=preferred is the default), or let the user log in without a password",
    )
}

/// Whether somebody else held the row.
pub(crate) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    number(error) == Some(LOCK_WAIT_TIMEOUT)
}

/// Whether the user may not see this.
pub(crate) fn is_privilege_missing(error: &sqlx::Error) -> bool {
    number(error) == Some(PRIVILEGE_MISSING)
}

fn number(error: &sqlx::Error) -> Option<u16> {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .map(MySqlDatabaseError::number)
}

fn kind(error: &sqlx::Error) -> ErrorKind {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => ErrorKind::Unavailable,
        other => number(other).map_or(ErrorKind::Failed, kind_of_number),
    }
}

fn kind_of_number(number: u16) -> ErrorKind {
    match number {
        // Too many connections, shutdown, network, killed, deadlock, lock wait, read-only after a fail-over, time-outs.
        1040
        | 1053
        | 1158..=1161
        | 1203
        | LOCK_WAIT_TIMEOUT
        | 1213
        | 1226
        | 1290
        | 1317
        | 1836
        | 1927
        | 1969
        | 3024
        | 4031 => ErrorKind::Unavailable,
        // Packet, null, characters, range and length, JSON, and what the procedure or a constraint refuses.
        1048 | 1153 | 1264 | 1292 | 1366 | 1406 | 1644 | 3140 | 3141 | 3157 | 3819 | 4025 => ErrorKind::Invalid,
        1062 => ErrorKind::Conflict,
        _ => ErrorKind::Failed,
    }
}

fn advice(number: u16) -> Option<&'static str> {
    match number {
        1021 | 1114 => Some("the database's disk or tablespace is full; make room, then try again"),
        1146 | 1305 => Some("the tables are not there; run `postroom migrate` first"),
        1153 => Some("too large for the server's max_allowed_packet, which must be 16 MiB or more"),
        3819 | 4025 => Some(
            "the database refuses the payload, the headers or the id; MariaDB takes JSON of at most 31 levels, \
             MySQL of 100, and neither takes lone surrogates",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_kind() {
        let check = |number, expected| assert_eq!(kind_of_number(number), expected, "{number}");
        check(1213, ErrorKind::Unavailable);
        check(1927, ErrorKind::Unavailable);
        check(4025, ErrorKind::Invalid);
        check(1644, ErrorKind::Invalid);
        check(1062, ErrorKind::Conflict);
        check(1114, ErrorKind::Failed);
    }

    #[test]
    fn a_password_that_needs_encryption_says_so() {
        let disabled = sqlx::Error::Configuration("RSA auth backend disabled; enable feature `mysql-rsa`".into());
        assert!(db("connect", disabled).to_string().contains("ssl-mode"));
    }

    #[test]
    fn a_lost_connection_is_unavailable() {
        let lost = sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into());
        assert_eq!(db("read", lost).kind(), ErrorKind::Unavailable);
        assert_eq!(db("read", sqlx::Error::PoolTimedOut).kind(), ErrorKind::Unavailable);
    }
}
