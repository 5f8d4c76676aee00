//! The one error of the library: what kind it is (for code), what was being done and what caused it (for people), and what an
//! operator can do next.

mod next_step;

mod condition;
#[cfg(any(feature = "mysql", test))]
mod mysql;
#[cfg(any(feature = "postgres", test))]
mod postgres;
#[cfg(any(feature = "sqlite", test))]
mod sqlite;

use std::error::Error as StdError;
use std::fmt;
use std::iter;
use std::sync::Arc;

use sea_orm::{DbErr, RuntimeErr};
use sqlx::error::DatabaseError;

pub use condition::Condition;

pub use next_step::{Letters, NextStep};

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
    /// The meaning of the cause, where the source does not show it.
    condition: Option<Condition>,
    doing: String,
    source: Option<BoxError>,
    next: Vec<NextStep>,
}

impl Error {
    /// An error without a cause of its own: `doing` says what is wrong. It gives the way out, unless that is a [`NextStep`].
    pub fn new(kind: ErrorKind, doing: impl Into<String>) -> Self {
        Self {
            kind,
            condition: None,
            doing: doing.into(),
            source: None,
            next: Vec::new(),
        }
    }

    /// An error caused by another one.
    pub fn caused(kind: ErrorKind, doing: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self {
            kind,
            condition: None,
            doing: doing.into(),
            source: Some(source.into()),
            next: Vec::new(),
        }
    }

    /// The same error with what an operator can do about it. The text of the error does not contain these steps.
    #[must_use]
    pub fn with_next(mut self, steps: impl IntoIterator<Item = NextStep>) -> Self {
        self.next.extend(steps);
        self
    }

    /// Shorthand for [`ErrorKind::Invalid`].
    pub fn invalid(doing: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, doing)
    }

    /// An error of a store's own statement, its kind read from the driver's error.
    pub fn store(doing: impl Into<String>, source: sqlx::Error) -> Self {
        Self::caused(Condition::of(&source).kind_in_store(), doing, source)
    }

    /// The same error with a meaning that no driver's error in its chain shows.
    #[must_use]
    pub fn meaning(self, condition: Condition) -> Self {
        Self {
            condition: Some(condition),
            ..self
        }
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

    /// The meaning of the first database error in the chain.
    pub fn condition(&self) -> Condition {
        let meaning = |error: &(dyn StdError + 'static)| match error.downcast_ref::<Self>() {
            Some(own) => own.condition,
            None => database_condition(error),
        };
        causes(self).find_map(meaning).unwrap_or(Condition::Other)
    }

    /// The steps that an operator can take, as far as the error knows.
    pub fn next_steps(&self) -> &[NextStep] {
        &self.next
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
            Err(other) => {
                let kind = causes(&*other).find_map(own_kind).unwrap_or(ErrorKind::Failed);
                Self::caused(kind, "the handler failed", other)
            }
        }
    }

    /// The same for an error of `anyhow`.
    pub(crate) fn of_anyhow(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => {
                let kind = other.chain().find_map(own_kind).unwrap_or(ErrorKind::Failed);
                let condition = other.chain().find_map(database_condition);
                Self {
                    condition,
                    ..Self::caused(kind, "the handler failed", other)
                }
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

/// An error and its causes, outermost first.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

/// The kind of an error that has one.
fn own_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    let own = error.downcast_ref::<Error>().map(Error::kind);
    let database = || error.downcast_ref::<DbErr>().map(db_kind);
    let driver = || database_condition(error).map(Condition::kind);
    own.or_else(database).or_else(driver)
}

fn db_kind(error: &DbErr) -> ErrorKind {
    match error {
        DbErr::RecordNotFound(_) => ErrorKind::NotFound,
        other => Condition::of_sea_orm(other).kind(),
    }
}

/// The meaning of an error of SeaORM or sqlx. A wrapper may hide the outer error and show the inner one, so this knows each link of their
/// chains.
fn database_condition(error: &(dyn StdError + 'static)) -> Option<Condition> {
    let orm = error.downcast_ref::<DbErr>().map(Condition::of_sea_orm);
    let runtime = || error.downcast_ref::<RuntimeErr>().map(Condition::of_runtime);
    let driver = || error.downcast_ref::<sqlx::Error>().map(Condition::of);
    let shared = || {
        error
            .downcast_ref::<Arc<sqlx::Error>>()
            .map(|error| Condition::of(error))
    };
    let returned = || error.downcast_ref::<Box<dyn DatabaseError>>();
    orm.or_else(runtime)
        .or_else(driver)
        .or_else(shared)
        .or_else(|| returned().map(|error| Condition::of_database(&**error)))
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
        Self::caused(Condition::of(&error).kind(), "query the database", error)
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
        let shared = Arc::new(sqlx::Error::PoolClosed);
        check(Box::new(Wrapper(Arc::clone(&shared))), ErrorKind::Unavailable);
        let runtime = RuntimeErr::SqlxError(shared);
        check(Box::new(Wrapper(runtime.clone())), ErrorKind::Unavailable);
        check(Box::new(Wrapper(DbErr::Exec(runtime))), ErrorKind::Unavailable);
        let missing = DbErr::RecordNotFound("an order".into());
        check(Box::new(Wrapper(missing)), ErrorKind::NotFound);
    }

    #[test]
    fn the_words_of_an_application_have_no_kind() {
        let check = |error: BoxError| assert_eq!(Error::of_handler(error).kind(), ErrorKind::Failed);
        check("deadlock detected".into());
        check(Box::new(Wrapper(std::io::Error::other("Connection refused"))));
        check(sqlx::Error::ColumnNotFound("Broken pipe".into()).into());
    }

    #[test]
    fn a_database_error_keeps_its_condition_in_every_wrapper() {
        let check = |error: Error| assert_eq!(error.condition(), Condition::PoolTimedOut, "{error}");
        let timed_out = || sqlx::Error::PoolTimedOut;
        let orm = || DbErr::Query(RuntimeErr::SqlxError(timed_out().into()));
        check(timed_out().into());
        check(orm().into());
        check(Error::store("read", timed_out()));
        check(Error::caused(ErrorKind::Failed, "settle", Error::from(orm())));
        check(Error::of_handler(Box::new(Wrapper(timed_out()))));
        check(Error::of_handler(boxed(anyhow::Error::from(timed_out()))));
        check(Error::of_handler(boxed(
            anyhow::Error::from(orm()).context("while handling"),
        )));
        check(Error::new(ErrorKind::Unavailable, "no lease").meaning(Condition::PoolTimedOut));
        assert_eq!(Error::invalid("pool timed out").condition(), Condition::Other);
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
