//! The ledger's tables, one file per group. The same SQL runs on PostgreSQL, MySQL and SQLite.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod balance;
pub(crate) mod journal;
pub(crate) mod portfolio;
pub(crate) mod request;
pub(crate) mod sequence;

use postroom::{Error, ErrorKind, Migration, Result, clock};
use uuid::Uuid;

/// All migrations, oldest first.
pub(crate) fn all() -> [Migration; 1] {
    [Migration {
        number: 1,
        name: "ledger",
        up: include_str!("../migrations/0001_ledger.up.sql"),
        down: include_str!("../migrations/0001_ledger.down.sql"),
    }]
}

/// The current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// The error for a value that the ledger never writes; another program must have written it.
fn unreadable(what: &str) -> Error {
    Error::new(
        ErrorKind::Failed,
        format!("{what} in the ledger's tables cannot be read"),
    )
}

fn read_id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|source| Error::caused(ErrorKind::Failed, "read a transaction's id", source))
}
