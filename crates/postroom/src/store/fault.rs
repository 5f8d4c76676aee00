//! Why a store fails, as far as its words tell, and what to do about it.

use serde::Serialize;

use crate::error::Error;

/// What is wrong with a store, the plainest cause first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// There is no room for another row.
    DiskFull,
    /// The platform's tables are not there.
    TablesMissing,
    /// Every connection of this process is in use.
    PoolDry,
    /// Another session holds a lock that is needed.
    Locked,
    /// Something else: the error says more.
    Other,
}

/// Drivers tell these apart by words only, once SeaORM has wrapped them.
const SIGNS: [(Fault, &[&str]); 4] = [
    (
        Fault::DiskFull,
        &[
            "disk is full",
            "No space left on device",
            "could not extend file",
            "Disk full",
            "' is full",
        ],
    ),
    (
        Fault::TablesMissing,
        &[
            "no such table: postroom",
            "tables are missing",
            "tables are not there",
            "relation \"postroom.",
            "schema \"postroom\" does not exist",
            "(42S02)",
        ],
    ),
    (Fault::PoolDry, &["pool timed out", "Connection pool timed out"]),
    (
        Fault::Locked,
        &[
            "database is locked",
            "lock timeout",
            "Lock wait timeout",
            "has not answered within",
            "is locked by another session",
        ],
    ),
];

impl Fault {
    /// What an error of a store means.
    pub fn of(error: &Error) -> Self {
        Self::in_words(&error.report())
    }

    fn in_words(words: &str) -> Self {
        let is_said = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
        let found = SIGNS.iter().find(|(_, signs)| is_said(signs));
        found.map_or(Self::Other, |(fault, _)| *fault)
    }

    /// What is the matter, and the next safe step.
    pub fn advice(self) -> &'static str {
        match self {
            Self::DiskFull => "the database's disk is full; make room, and it goes on by itself",
            Self::TablesMissing => {
                "the tables of Postroom are missing in this database; apply them with `postroom migrate`, or in a program of \
                 your own with postroom::migration::up; it goes on by itself then"
            }
            Self::PoolDry => {
                "every connection of this process is in use; look for handlers that wait, and for transactions that block \
                 them (`postroom why`)"
            }
            Self::Locked => {
                "the database does not answer in time, or holds a lock; `postroom why` names who blocks whom"
            }
            Self::Other => "the store fails",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_drivers_have_their_fault() {
        let check = |words: &str, expected: Fault| assert_eq!(Fault::in_words(words), expected, "{words}");
        check(
            "settle: error returned from database: (code: 13) database or disk is full",
            Fault::DiskFull,
        );
        check(
            "append: could not extend file \"base/1/2\": No space left on device",
            Fault::DiskFull,
        );
        check(
            "append: 1114 (HY000): The table 'postroom_incoming' is full",
            Fault::DiskFull,
        );
        check(
            "register: relation \"postroom.outbox_cursor\" does not exist",
            Fault::TablesMissing,
        );
        check(
            "register: (code: 1) no such table: postroom_outbox_cursor",
            Fault::TablesMissing,
        );
        check(
            "1146 (42S02): Table 'app.postroom_outbox_cursor' doesn't exist",
            Fault::TablesMissing,
        );
        check("database \"app\" does not exist", Fault::Other);
        check(
            "begin: pool timed out while waiting for an open connection",
            Fault::PoolDry,
        );
        check(
            "begin: Failed to acquire connection from pool: Connection pool timed out",
            Fault::PoolDry,
        );
        check(
            "the database has not answered within 10s: deadline has elapsed",
            Fault::Locked,
        );
        check("canceling statement due to lock timeout", Fault::Locked);
        check("connection refused", Fault::Other);
    }
}
