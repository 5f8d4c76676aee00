//! The one error of the library: what kind it is (for code), what was being done and what caused it (for people).

use std::error::Error as StdError;
use std::fmt;

use sea_orm::{DbErr, SqlErr};

/// `Result` with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can branch on.
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
    /// What was named does not exist.
    NotFound,
    /// The adapter cannot do this.
    Unsupported,
    /// Anything else: the source says more.
    Failed,
}

/// What failed, while doing what, and why.
pub struct Error {
    kind: ErrorKind,
    doing: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
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
    pub fn caused(
        kind: ErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
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

    /// What a caller can branch on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The whole chain in one line, outermost first.
    pub fn report(&self) -> String {
        let mut line = self.doing.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            line.push_str(": ");
            line.push_str(&cause.to_string());
            next = cause.source();
        }
        line
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
        f.write_str(&self.doing)
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

/// Lets a handler use `?` when it decodes a payload.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::caused(ErrorKind::Invalid, "decode JSON", error)
    }
}
