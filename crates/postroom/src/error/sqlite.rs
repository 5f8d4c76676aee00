//! The meaning of SQLite's result codes. Names: "Result and Error Codes" of SQLite's manual.

use super::Condition;

/// The meaning of an error of SQLite. The driver gives the extended result code; its lowest byte is the primary one. The text counts in
/// one case only: a missing table has no code of its own. SQLite makes `sqlite_sequence` with the first table of Postroom.
pub(super) fn condition(code: i32, message: &str) -> Condition {
    match code {
        // SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_ROWID
        1555 | 2067 | 2579 => Condition::Duplicate,
        _ => match code & 0xff {
            // SQLITE_ERROR
            1 if MISSING.iter().any(|sign| message.contains(sign)) => Condition::TablesMissing,
            // SQLITE_BUSY, SQLITE_LOCKED
            5 | 6 => Condition::Locked,
            // SQLITE_IOERR, SQLITE_CANTOPEN
            10 | 14 => Condition::Unavailable,
            // SQLITE_FULL
            13 => Condition::DiskFull,
            // SQLITE_TOOBIG, SQLITE_CONSTRAINT
            18 | 19 => Condition::InvalidValue,
            _ => Condition::Other,
        },
    }
}

const MISSING: [&str; 3] = [
    "no such table: postroom_",
    "no such table: main.postroom_",
    "no such table: sqlite_sequence",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_condition() {
        let check = |code: i32, name: &str, expected: Condition| {
            assert_eq!(condition(code, "words"), expected, "{code} {name}");
        };
        check(1, "SQLITE_ERROR", Condition::Other);
        check(5, "SQLITE_BUSY", Condition::Locked);
        check(261, "SQLITE_BUSY_RECOVERY", Condition::Locked);
        check(517, "SQLITE_BUSY_SNAPSHOT", Condition::Locked);
        check(6, "SQLITE_LOCKED", Condition::Locked);
        check(262, "SQLITE_LOCKED_SHAREDCACHE", Condition::Locked);
        check(8, "SQLITE_READONLY: no permission to write", Condition::Other);
        check(9, "SQLITE_INTERRUPT", Condition::Other);
        check(10, "SQLITE_IOERR", Condition::Unavailable);
        check(778, "SQLITE_IOERR_WRITE", Condition::Unavailable);
        check(11, "SQLITE_CORRUPT", Condition::Other);
        check(13, "SQLITE_FULL", Condition::DiskFull);
        check(14, "SQLITE_CANTOPEN", Condition::Unavailable);
        check(18, "SQLITE_TOOBIG", Condition::InvalidValue);
        check(19, "SQLITE_CONSTRAINT", Condition::InvalidValue);
        check(275, "SQLITE_CONSTRAINT_CHECK", Condition::InvalidValue);
        check(787, "SQLITE_CONSTRAINT_FOREIGNKEY", Condition::InvalidValue);
        check(1555, "SQLITE_CONSTRAINT_PRIMARYKEY", Condition::Duplicate);
        check(2067, "SQLITE_CONSTRAINT_UNIQUE", Condition::Duplicate);
        check(2579, "SQLITE_CONSTRAINT_ROWID", Condition::Duplicate);
        check(0, "none", Condition::Other);
    }

    #[test]
    fn the_text_says_which_table_is_missing() {
        let check = |message: &str, expected: Condition| assert_eq!(condition(1, message), expected, "{message}");
        check("no such table: postroom_outbox_cursor", Condition::TablesMissing);
        check("no such table: main.postroom_outbox", Condition::TablesMissing);
        check("no such table: sqlite_sequence", Condition::TablesMissing);
        check("no such table: orders", Condition::Other);
        check("no such column: postroom_outbox", Condition::Other);
    }
}
