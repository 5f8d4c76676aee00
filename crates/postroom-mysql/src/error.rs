//! The way out for errors of MySQL and MariaDB. Their kinds come from `postroom::Condition`.

use postroom::Error;
use sqlx::mysql::MySqlDatabaseError;

/// A row lock was not granted in time.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// The user lacks a privilege.
const PRIVILEGE_MISSING: u16 = 1227;

/// An error of the driver, with its kind and, where people can do something about it, what that is.
pub(crate) fn db(doing: &str, source: sqlx::Error) -> Error {
    let advice = number(&source).and_then(advice);
    match advice.or_else(|| refusal(&source)).or_else(|| unencrypted(&source)) {
        Some(advice) => Error::store(format!("{doing}: {advice}"), source),
        None => Error::store(doing, source),
    }
}

/// The advice when no server listens at the address.
fn refusal(error: &sqlx::Error) -> Option<&'static str> {
    let is_refused = matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
    is_refused.then_some("nobody listens at the address; start the server, or mend host and port")
}

/// The advice when the server wants a password that only an encrypted connection may carry. The driver could also encrypt
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

fn advice(number: u16) -> Option<&'static str> {
    match number {
        1021 | 1114 => Some("the database's disk or tablespace is full; make room, then try again"),
        1146 | 1305 => Some("the tables are not there; apply the migrations first"),
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
    use postroom::ErrorKind;

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
