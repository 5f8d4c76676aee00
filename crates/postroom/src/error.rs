//! The one error of the library: what kind it is (for code), what was being done and what caused it (for people).

use std::error::Error as StdError;
use std::fmt;

use sea_orm::{DbErr, SqlErr};

/// `Result` with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error. A handler may fail with whatever its own code fails with.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The class of an error, for callers that handle classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input breaks a documented limit or rule; the same call will fail again.
    Invalid,
    /// The database or destination cannot be reached now; the same call may work later.
    Unavailable,
    /// The lease was lost: another relay owns this route shard, and this one must stop.
    Deposed,
    /// Something with this identity already exists.
    Conflict,
    /// The named object does not exist.
    NotFound,
    /// The adapter cannot do this.
    Unsupported,
    /// Anything else: the source says more.
    Failed,
}

/// An error: the operation that failed, and its cause.
pub struct Error {
    kind: ErrorKind,
    doing: String,
    source: Option<BoxError>,
}

impl Error {
    /// An error without a cause of its own: `doing` says what is wrong and the way out.
    pub fn new(kind: ErrorKind, doing: impl Into<String>) -> Self {
        Self {
            kind,
            doing: doing.into(),
            source: None,
        }
    }

    /// An error caused by another one.
    pub fn caused(kind: ErrorKind, doing: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self {
            kind,
            doing: doing.into(),
            source: Some(source.into()),
        }
    }

    /// Shorthand for [`ErrorKind::Invalid`].
    pub fn invalid(doing: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, doing)
    }

    /// An error of the database, its kind read from the driver's error.
    pub fn db(doing: impl Into<String>, source: DbErr) -> Self {
        Self::caused(db_kind(&source), doing, source)
    }

    /// The operation or the fault, without the cause: no text of a driver.
    pub fn doing(&self) -> &str {
        &self.doing
    }

    /// The class of an error, for callers that handle classes differently.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The whole chain in one line, outermost first, each cause once. The same as [`fmt::Display`].
    pub fn report(&self) -> String {
        let mut line = self.doing.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            let says = cause.to_string();
            // Drivers repeat their cause in their own text.
            if !line.contains(&says) {
                line.push_str(": ");
                line.push_str(&says);
            }
            next = cause.source();
        }
        line
    }

    /// The error of a handler. Its kind is that of the first error in its chain that has one.
    pub(crate) fn of_handler(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(other) => Self::caused(kind_in_chain(&*other), "the handler failed", other),
        }
    }

    /// The same for an error of `anyhow`.
    pub(crate) fn of_anyhow(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => {
                let kind = other.chain().find_map(own_kind).unwrap_or(ErrorKind::Failed);
                Self::caused(kind, "the handler failed", other)
            }
        }
    }
}

/// An error that makes the event a dead letter at once: the same event would fail again.
///
/// ```
/// async fn ship(_tx: &mut postroom::Tx, event: &postroom::Event) -> Result<(), postroom::BoxError> {
///     let weight = event.headers.get("weight").ok_or_else(|| postroom::reject("no header weight"))?;
///     let _grams: u32 = weight.parse().map_err(postroom::reject)?;
///     Ok(())
/// }
/// ```
pub fn reject(error: impl Into<BoxError>) -> Error {
    Error::caused(ErrorKind::Invalid, "the handler rejected the event", error)
}

/// The kind of the first error in a chain that has one.
fn kind_in_chain(error: &(dyn StdError + 'static)) -> ErrorKind {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(kind) = own_kind(error) {
            return kind;
        }
        next = error.source();
    }
    ErrorKind::Failed
}

/// The kind of an error that has one.
fn own_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    let own = error.downcast_ref::<Error>().map(Error::kind);
    let database = || error.downcast_ref::<DbErr>().map(db_kind);
    let driver = || error.downcast_ref::<sqlx::Error>().map(driver_kind);
    own.or_else(database).or_else(driver)
}

/// The kind of an error of the driver.
fn driver_kind(error: &sqlx::Error) -> ErrorKind {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
            ErrorKind::Unavailable
        }
        sqlx::Error::Database(error) if error.is_unique_violation() => ErrorKind::Conflict,
        other if says_unavailable(&other.to_string()) => ErrorKind::Unavailable,
        _ => ErrorKind::Failed,
    }
}

/// One place that knows which driver errors mean "try again later".
fn db_kind(error: &DbErr) -> ErrorKind {
    if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) {
        return ErrorKind::Conflict;
    }
    match error {
        DbErr::Conn(_) | DbErr::ConnectionAcquire(_) => ErrorKind::Unavailable,
        other if says_unavailable(&other.to_string()) => ErrorKind::Unavailable,
        DbErr::RecordNotFound(_) => ErrorKind::NotFound,
        _ => ErrorKind::Failed,
    }
}

/// Drivers report a lost server as an ordinary query error; the words are theirs.
fn says_unavailable(text: &str) -> bool {
    const SIGNS: [&str; 15] = [
        "error communicating with database",
        "Connection refused",
        "Connection reset",
        "Broken pipe",
        "terminating connection",
        "the database system is",
        "closed the connection",
        "Server shutdown in progress",
        "database is locked",
        "database or disk is full",
        "No space left on device",
        "Deadlock found",
        "deadlock detected",
        "due to lock timeout",
        "Lock wait timeout exceeded",
    ];
    SIGNS.iter().any(|sign| text.contains(sign))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.report())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Lets a handler use `?` on its own SeaORM queries.
impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        Self::db("query the database", error)
    }
}

/// Lets a handler use `?` on its own sqlx queries.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::caused(driver_kind(&error), "query the database", error)
    }
}

/// Lets code use `?` on JSON. [`crate::Event::decode`] is different: its errors are [`ErrorKind::Invalid`].
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::caused(ErrorKind::Failed, "read or write JSON", error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriber::handler::boxed;

    #[test]
    fn a_handler_may_fail_with_any_error() {
        let check = |error: BoxError, kind: ErrorKind| assert_eq!(Error::of_handler(error).kind(), kind);
        check("plain words".into(), ErrorKind::Failed);
        check(Error::invalid("no").into(), ErrorKind::Invalid);
        check(reject("never").into(), ErrorKind::Invalid);
        check(sqlx::Error::PoolTimedOut.into(), ErrorKind::Unavailable);
        check(sqlx::Error::RowNotFound.into(), ErrorKind::Failed);
        let json = serde_json::from_str::<u32>("x").unwrap_err();
        check(json.into(), ErrorKind::Failed);
        let check = |error: anyhow::Error, kind: ErrorKind| {
            assert_eq!(Error::of_handler(boxed(error)).kind(), kind);
        };
        check(reject("never").into(), ErrorKind::Invalid);
        check(sqlx::Error::PoolTimedOut.into(), ErrorKind::Unavailable);
        check(
            anyhow::Error::from(reject("never")).context("while handling"),
            ErrorKind::Invalid,
        );
        check(anyhow::anyhow!("plain words"), ErrorKind::Failed);
    }

    #[test]
    fn an_error_inside_another_has_its_kind() {
        let check = |error: BoxError, kind: ErrorKind| assert_eq!(Error::of_handler(error).kind(), kind);
        check(
            Box::new(Wrapper(Error::invalid("inside another error"))),
            ErrorKind::Invalid,
        );
        check(Box::new(Wrapper(sqlx::Error::PoolClosed)), ErrorKind::Unavailable);
    }

    #[derive(Debug)]
    struct Wrapper<E>(E);

    impl<E: fmt::Debug> fmt::Display for Wrapper<E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an error of the application")
        }
    }

    impl<E: StdError + 'static> StdError for Wrapper<E> {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_reported_once() {
        let reset = std::io::Error::other("connection reset");
        let twice = Error::caused(ErrorKind::Failed, "read", sqlx::Error::Io(reset));
        assert_eq!(twice.to_string().matches("connection reset").count(), 1, "{twice}");
        assert!(twice.to_string().starts_with("read: "), "{twice}");
    }
}
