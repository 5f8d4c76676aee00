//! The way out for errors of PostgreSQL. Their kinds come from `postroom::Condition`.

use postroom::{Condition, Error};
use sqlx::postgres::PgDatabaseError;

/// An error of the driver, with its kind and, where PostgreSQL's own words are not enough, the way out.
pub(crate) fn driver(doing: &str, source: sqlx::Error) -> Error {
    let state = state(&source);
    let doing = match state.as_deref() {
        Some("53100") => format!("{doing}: the database's disk is full, make room on it"),
        Some("42P01" | "3F000" | "42883") => format!("{doing}: tables are missing or old; apply the migrations"),
        // A statement that is there already, or no more; a pooler that takes no settings.
        Some("42P05" | "26000" | "08P01") if Condition::of(&source) == Condition::Other => {
            format!("{doing}: behind a pooler add `pooler=transaction` to the address")
        }
        // The only details passed on: those of other states may repeat a whole row.
        Some("22P02" | "22P05") => format!("{doing}: {}", detail(&source).unwrap_or("it cannot be read")),
        None if is_refused(&source) => {
            format!("{doing}: nobody listens at the address; start the server, or mend host and port")
        }
        _ => doing.to_owned(),
    };
    Error::store(doing, source)
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

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::ErrorKind;

    #[test]
    fn a_lost_connection_may_come_back() {
        let lost = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(driver("read", lost).kind(), ErrorKind::Unavailable);
        assert_eq!(driver("read", sqlx::Error::PoolTimedOut).kind(), ErrorKind::Unavailable);
    }
}
