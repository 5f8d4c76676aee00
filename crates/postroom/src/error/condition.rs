//! The meaning of a database error, read from the driver's structured data: its error variant and the database's error code.
//!
//! Each database has one table of codes: `postgres`, `mysql` and `sqlite`, beside this file and behind the features of the same
//! names. A table searches the text of an error only where the code leaves open what the error means; it lists each such case.

use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr};
use sqlx::error::DatabaseError;

use crate::error::ErrorKind;

/// The meaning of a database error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The server cannot be reached, starts, stops, only reads, has no resource left, or has rolled back the transaction because
    /// of a deadlock or a serialization failure. The same transaction may work later.
    Unavailable,
    /// Every connection of this process's pool is in use.
    PoolTimedOut,
    /// Another session holds a lock that is needed, or the database has not answered in time.
    Locked,
    /// There is no room for another row.
    DiskFull,
    /// The server ended the statement: it took too long, or an operator cancelled it.
    Cancelled,
    /// A table or a routine of Postroom does not exist.
    TablesMissing,
    /// A row with this key exists.
    Duplicate,
    /// The driver or the database refuses a value: an address, a type, a length, a constraint.
    InvalidValue,
    /// Driver and server do not understand each other, or a statement has another number of parameters than was bound.
    Protocol,
    /// Any other error.
    Other,
}

impl Condition {
    /// The meaning of an error of sqlx.
    pub fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                Self::Unavailable
            }
            sqlx::Error::PoolTimedOut => Self::PoolTimedOut,
            sqlx::Error::Protocol(_) => Self::Protocol,
            sqlx::Error::Configuration(_) | sqlx::Error::Encode(_) => Self::InvalidValue,
            sqlx::Error::Database(error) => Self::of_database(&**error),
            _ => Self::Other,
        }
    }

    /// The meaning of an error of SeaORM. SeaORM hides the driver's error from `source`.
    pub(super) fn of_sea_orm(error: &DbErr) -> Self {
        match error {
            DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) => Self::PoolTimedOut,
            DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed) => Self::Unavailable,
            // Without a connection the database is unavailable, also if the server refuses it for a lasting reason.
            DbErr::Conn(error) => match Self::of_runtime(error) {
                known if known.kind() == ErrorKind::Unavailable => known,
                _ => Self::Unavailable,
            },
            DbErr::Exec(error) | DbErr::Query(error) => Self::of_runtime(error),
            _ => Self::Other,
        }
    }

    /// The meaning of the inner error of SeaORM. Its variant `Internal` is text of SeaORM's own, never that of a driver.
    pub(super) fn of_runtime(error: &RuntimeErr) -> Self {
        if let RuntimeErr::SqlxError(error) = error {
            Self::of(error)
        } else {
            Self::Other
        }
    }

    /// The meaning of an error that the database itself has returned.
    pub(super) fn of_database(error: &dyn DatabaseError) -> Self {
        #[cfg(feature = "postgres")]
        if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
            return super::postgres::condition(error.code(), error.message());
        }
        #[cfg(feature = "mysql")]
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return super::mysql::condition(error.number(), error.code().unwrap_or_default(), error.message());
        }
        #[cfg(feature = "sqlite")]
        if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
            let code = error.code().and_then(|code| code.parse().ok());
            return super::sqlite::condition(code.unwrap_or_default(), error.message());
        }
        if error.is_unique_violation() {
            Self::Duplicate
        } else {
            Self::Other
        }
    }

    /// The kind of an error whose statement may be a handler's: a value that the database refuses, or a statement that takes too
    /// long, does not make the event invalid or the database unavailable.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Unavailable | Self::PoolTimedOut | Self::Locked | Self::DiskFull => ErrorKind::Unavailable,
            Self::Duplicate => ErrorKind::Conflict,
            Self::Cancelled | Self::TablesMissing | Self::InvalidValue | Self::Protocol | Self::Other => {
                ErrorKind::Failed
            }
        }
    }

    /// The kind of an error of a store's own statement. The statement is correct and quick, so a value that the database refuses
    /// came from the caller, and a statement that was cancelled or not understood may work later.
    pub fn kind_in_store(self) -> ErrorKind {
        match self {
            Self::Cancelled | Self::Protocol => ErrorKind::Unavailable,
            Self::InvalidValue => ErrorKind::Invalid,
            other => other.kind(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_sqlx_has_its_condition() {
        let check = |error: sqlx::Error, expected: Condition| {
            assert_eq!(Condition::of(&error), expected, "{error}");
            let wrapped = DbErr::Exec(RuntimeErr::SqlxError(error.into()));
            assert_eq!(Condition::of_sea_orm(&wrapped), expected, "{wrapped}");
        };
        for kind in [
            std::io::ErrorKind::ConnectionRefused,
            std::io::ErrorKind::ConnectionReset,
            std::io::ErrorKind::BrokenPipe,
            std::io::ErrorKind::UnexpectedEof,
            std::io::ErrorKind::TimedOut,
        ] {
            check(sqlx::Error::Io(kind.into()), Condition::Unavailable);
        }
        check(sqlx::Error::Tls("no certificate".into()), Condition::Unavailable);
        check(sqlx::Error::PoolClosed, Condition::Unavailable);
        check(sqlx::Error::WorkerCrashed, Condition::Unavailable);
        check(sqlx::Error::PoolTimedOut, Condition::PoolTimedOut);
        check(sqlx::Error::Protocol("unexpected message".into()), Condition::Protocol);
        check(
            sqlx::Error::Configuration("no such option".into()),
            Condition::InvalidValue,
        );
        check(sqlx::Error::Encode("too long".into()), Condition::InvalidValue);
        check(sqlx::Error::RowNotFound, Condition::Other);
        check(sqlx::Error::ColumnNotFound("Broken pipe".into()), Condition::Other);
    }

    #[test]
    fn each_error_of_sea_orm_has_its_condition() {
        let check = |error: DbErr, expected: Condition| assert_eq!(Condition::of_sea_orm(&error), expected, "{error}");
        let conn = |error: sqlx::Error| DbErr::Conn(RuntimeErr::SqlxError(error.into()));
        check(
            DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
            Condition::PoolTimedOut,
        );
        check(
            DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
            Condition::Unavailable,
        );
        check(conn(sqlx::Error::PoolTimedOut), Condition::PoolTimedOut);
        check(conn(sqlx::Error::BeginFailed), Condition::Unavailable);
        check(
            DbErr::Conn(RuntimeErr::Internal("Disconnected".into())),
            Condition::Unavailable,
        );
        check(
            DbErr::Query(RuntimeErr::Internal("Connection refused".into())),
            Condition::Other,
        );
        check(DbErr::Custom("deadlock detected".into()), Condition::Other);
    }

    #[test]
    fn a_handlers_statement_and_a_stores_own_have_their_kinds() {
        let check = |condition: Condition, handler: ErrorKind, store: ErrorKind| {
            assert_eq!(condition.kind(), handler, "{condition:?}");
            assert_eq!(condition.kind_in_store(), store, "{condition:?}");
        };
        check(Condition::Unavailable, ErrorKind::Unavailable, ErrorKind::Unavailable);
        check(Condition::PoolTimedOut, ErrorKind::Unavailable, ErrorKind::Unavailable);
        check(Condition::Locked, ErrorKind::Unavailable, ErrorKind::Unavailable);
        check(Condition::DiskFull, ErrorKind::Unavailable, ErrorKind::Unavailable);
        check(Condition::Cancelled, ErrorKind::Failed, ErrorKind::Unavailable);
        check(Condition::Protocol, ErrorKind::Failed, ErrorKind::Unavailable);
        check(Condition::InvalidValue, ErrorKind::Failed, ErrorKind::Invalid);
        check(Condition::Duplicate, ErrorKind::Conflict, ErrorKind::Conflict);
        check(Condition::TablesMissing, ErrorKind::Failed, ErrorKind::Failed);
        check(Condition::Other, ErrorKind::Failed, ErrorKind::Failed);
    }
}
