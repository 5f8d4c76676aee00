//! The one place that knows what the driver's errors mean.

use postroom::{Error, ErrorKind};
use sqlx::postgres::PgDatabaseError;

/// An error of the driver, with its kind and, where PostgreSQL's own words are not enough, the way out.
pub(crate) fn driver(doing: &str, source: sqlx::Error) -> Error {
    let state = state(&source);
    let doing = match state.as_deref() {
        Some("53100") => format!("{doing}: the database's disk is full, make room on it"),
        Some("42P01" | "3F000" | "42883") => format!("{doing}: tables are missing or old, run `postroom migrate`"),
        // A statement that is there already, or no more; a pooler that takes no settings.
        Some("42P05" | "26000" | "08P01") => {
            format!("{doing}: behind a pooler add `pooler=transaction` to the address")
        }
        // The only details passed on: those of other states may repeat a whole row.
        Some("22P02" | "22P05") => format!("{doing}: {}", detail(&source).unwrap_or("it cannot be read")),
        None if is_refused(&source) => {
            format!("{doing}: nobody listens at the address; start the server, or mend host and port")
        }
        _ => doing.to_owned(),
    };
    Error::caused(kind(&source, state.as_deref()), doing, source)
}

/// Whether nobody listens at the address.
fn is_refused(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn state(error: &sqlx::Error) -> Option<String> {
    error
        .as_database_error()
        .and_then(|error| error.code())
        .map(std::borrow::Cow::into_owned)
}

fn detail(error: &sqlx::Error) -> Option<&str> {
    error
        .as_database_error()?
        .try_downcast_ref::<PgDatabaseError>()?
        .detail()
}

fn kind(error: &sqlx::Error, state: Option<&str>) -> ErrorKind {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
            ErrorKind::Unavailable
        }
        sqlx::Error::Configuration(_) | sqlx::Error::Encode(_) => ErrorKind::Invalid,
        _ => state.map_or(ErrorKind::Failed, kind_of_state),
    }
}

/// By SQLSTATE, most by its class: the first two characters.
fn kind_of_state(state: &str) -> ErrorKind {
    match state {
        "23505" => ErrorKind::Conflict,
        "08P01" => ErrorKind::Failed,
        // A lock or statement that timed out, a server that starts, stops or is a standby, a deadlock, a serialisation
        // failure.
        "55P03" | "57014" | "25006" | "40001" | "40P01" => ErrorKind::Unavailable,
        _ => match state.get(..2) {
            // Connection, resources (disk, memory, connections), operator (shutdown).
            Some("08" | "53" | "57") => ErrorKind::Unavailable,
            // Data, constraints, limits of the server (depth, size).
            Some("22" | "23" | "54") => ErrorKind::Invalid,
            _ => ErrorKind::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_its_kind() {
        let check = |state: &str, expected: ErrorKind| assert_eq!(kind_of_state(state), expected, "{state}");
        check("53100", ErrorKind::Unavailable);
        check("53300", ErrorKind::Unavailable);
        check("57P01", ErrorKind::Unavailable);
        check("40P01", ErrorKind::Unavailable);
        check("08006", ErrorKind::Unavailable);
        check("22P05", ErrorKind::Invalid);
        check("23514", ErrorKind::Invalid);
        check("54001", ErrorKind::Invalid);
        check("23505", ErrorKind::Conflict);
        check("42501", ErrorKind::Failed);
        check("", ErrorKind::Failed);
    }

    #[test]
    fn a_lost_connection_may_come_back() {
        let lost = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(driver("read", lost).kind(), ErrorKind::Unavailable);
        assert_eq!(driver("read", sqlx::Error::PoolTimedOut).kind(), ErrorKind::Unavailable);
    }
}
