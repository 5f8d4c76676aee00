//! The way out for errors of SQLite. Their kinds come from `postroom::Condition`.

use postroom::{Condition, Error};

/// For `map_err`: what failed, its kind, and, where people can do something about it, what that is.
pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(sqlx::Error) -> Error {
    move |source| {
        let doing = match advice(Condition::of(&source)) {
            Some(advice) => format!("{}: {advice}", doing.into()),
            None => doing.into(),
        };
        Error::store(doing, source)
    }
}

fn advice(condition: Condition) -> Option<&'static str> {
    match condition {
        Condition::DiskFull => Some("the disk or the database is full, nothing was written; make room and try again"),
        Condition::Locked => Some("another process holds the write lock; keep its transactions short"),
        Condition::TablesMissing => Some("the tables are not there; apply the migrations first"),
        _ => None,
    }
}

/// Whether another connection holds the lock that was asked for.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    Condition::of(error) == Condition::Locked
}
