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
pub(crate) fn all() -> [Migration; 2] {
    [
        Migration {
            number: 1,
            name: "ledger",
            up: include_str!("../migrations/0001_ledger.up.sql"),
            down: include_str!("../migrations/0001_ledger.down.sql"),
        },
        Migration {
            number: 2,
            name: "wide balance",
            up: include_str!("../migrations/0002_wide_balance.up.sql"),
            down: include_str!("../migrations/0002_wide_balance.down.sql"),
        },
    ]
}

/// The unit of the high part of a balance.
const HIGH: i128 = 1_000_000_000_000_000_000;

/// The low and the high part of a balance. A balance that fits into the low part has no high part.
fn parts(balance: i128) -> Result<(i64, i64)> {
    if let Ok(low) = i64::try_from(balance) {
        return Ok((low, 0));
    }
    let (low, high) = (i64::try_from(balance % HIGH), i64::try_from(balance / HIGH));
    low.ok()
        .zip(high.ok())
        .ok_or_else(|| Error::new(ErrorKind::Failed, "a balance exceeds what the ledger's tables hold"))
}

/// The balance with these parts.
fn whole(low: i64, high: i64) -> i128 {
    i128::from(high) * HIGH + i128::from(low)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_comes_back_from_its_parts() {
        let most = i128::from(i64::MAX);
        for balance in [
            0,
            1,
            -1,
            HIGH,
            -HIGH,
            most,
            -most,
            most + 1,
            -most - 2,
            123 * HIGH + 7,
            -123 * HIGH - 7,
        ] {
            let (low, high) = parts(balance).unwrap();
            assert_eq!(whole(low, high), balance);
            assert_eq!(high == 0, i64::try_from(balance).is_ok(), "{balance}");
        }
        assert!(parts(i128::MAX).is_err());
    }
}
