//! The meaning of the error numbers and SQLSTATEs of MySQL and MariaDB. Names: "Server Error Message Reference" of MySQL 8.4,
//! "MariaDB Error Code Reference".

use super::Condition;

/// The meaning of an error of MySQL or MariaDB. Most errors share a few SQLSTATEs, so the number decides before them. The text counts
/// in two cases only:
/// - an undefined object: no field names it, and tables of the application may be missing too. The text has the database's name
///   before a dot;
/// - [`WITH_ERRNO`]: only the text has the cause.
pub(super) fn condition(number: u16, state: &str, message: &str) -> Condition {
    match number {
        // ER_DUP_KEY, ER_DUP_ENTRY, ER_DUP_UNIQUE, ER_DUP_ENTRY_WITH_KEY_NAME, ER_DUP_UNKNOWN_IN_INDEX
        1022 | 1062 | 1169 | 1586 | 1859 => Condition::Duplicate,
        // EE_DISK_FULL, ER_DISK_FULL, ER_RECORD_FILE_FULL (of a table or its tablespace)
        20 | 1021 | 1114 => Condition::DiskFull,
        _ if WITH_ERRNO.contains(&number) && message.contains("No space left on device") => Condition::DiskFull,
        // ER_LOCK_WAIT_TIMEOUT, ER_LOCK_NOWAIT
        1205 | 3572 => Condition::Locked,
        // ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT (MariaDB), ER_QUERY_TIMEOUT (MySQL)
        1317 | 1969 | 3024 => Condition::Cancelled,
        // ER_SP_DOES_NOT_EXIST
        1305 if message.contains(".postroom_") => Condition::TablesMissing,
        _ if is_unavailable(number) => Condition::Unavailable,
        _ if is_invalid_value(number, state) => Condition::InvalidValue,
        _ => match state {
            // ER_NO_SUCH_TABLE and others
            "42S02" if message.contains(".postroom_") => Condition::TablesMissing,
            // Connection exceptions; rollbacks.
            _ if state.starts_with("08") || state.starts_with("40") => Condition::Unavailable,
            _ => Condition::Other,
        },
    }
}

/// Errors into whose text the server puts that of the operating system.
// EE_WRITE, ER_CANT_CREATE_FILE, ER_CANT_CREATE_TABLE, ER_ERROR_ON_WRITE, ER_GET_ERRNO, ER_ERROR_DURING_COMMIT
const WITH_ERRNO: [u16; 6] = [3, 1004, 1005, 1026, 1030, 1180];

fn is_unavailable(number: u16) -> bool {
    match number {
        // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED
        1040 | 1203 | 1226 => true,
        // ER_SERVER_SHUTDOWN, ER_NET_READ_ERROR to ER_NET_WRITE_INTERRUPTED
        1053 | 1158..=1161 => true,
        // ER_CONNECTION_KILLED (MariaDB), ER_CLIENT_INTERACTION_TIMEOUT (MySQL): idle_transaction_timeout and wait_timeout
        1927 | 4031 => true,
        // ER_CHECKREAD (MariaDB: another transaction has changed the row), ER_LOCK_DEADLOCK
        1020 | 1213 => true,
        // ER_OPTION_PREVENTS_STATEMENT, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_READ_ONLY_MODE: read-only after a fail-over
        1290 | 1792 | 1836 => true,
        // CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR, CR_SERVER_GONE_ERROR, CR_SERVER_LOST, CR_SERVER_LOST_EXTENDED: the driver has
        // `sqlx::Error::Io` for these, but proxies send them. And the connect timeout of ProxySQL.
        2002 | 2003 | 2006 | 2013 | 2055 | 9001 => true,
        _ => false,
    }
}

fn is_invalid_value(number: u16, state: &str) -> bool {
    match number {
        // ER_BAD_NULL_ERROR, ER_NET_PACKET_TOO_LARGE, ER_WARN_DATA_OUT_OF_RANGE, ER_TRUNCATED_WRONG_VALUE
        1048 | 1153 | 1264 | 1292 => true,
        // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_DATA_TOO_LONG, ER_SIGNAL_EXCEPTION (a procedure or a trigger refuses)
        1366 | 1406 | 1644 => true,
        // ER_INVALID_JSON_TEXT, ER_INVALID_JSON_TEXT_IN_PARAM, ER_JSON_DOCUMENT_TOO_DEEP
        3140 | 3141 | 3157 => true,
        // ER_CHECK_CONSTRAINT_VIOLATED (MySQL)
        3819 => true,
        // ER_CONSTRAINT_FAILED (MariaDB); MySQL uses the number for another error
        4025 => state == "23000",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: u16, state: &str, name: &str, expected: Condition) {
        assert_eq!(condition(number, state, "words"), expected, "{number} ({state}) {name}");
    }

    #[test]
    fn each_number_that_may_pass_has_its_condition() {
        check(20, "HY000", "EE_DISK_FULL", Condition::DiskFull);
        check(1020, "HY000", "ER_CHECKREAD", Condition::Unavailable);
        check(1021, "HY000", "ER_DISK_FULL", Condition::DiskFull);
        check(1040, "08004", "ER_CON_COUNT_ERROR", Condition::Unavailable);
        check(
            1040,
            "",
            "ER_CON_COUNT_ERROR before the handshake",
            Condition::Unavailable,
        );
        check(1053, "08S01", "ER_SERVER_SHUTDOWN", Condition::Unavailable);
        check(1114, "HY000", "ER_RECORD_FILE_FULL", Condition::DiskFull);
        check(1158, "08S01", "ER_NET_READ_ERROR", Condition::Unavailable);
        check(1161, "08S01", "ER_NET_WRITE_INTERRUPTED", Condition::Unavailable);
        check(1203, "42000", "ER_TOO_MANY_USER_CONNECTIONS", Condition::Unavailable);
        check(1205, "HY000", "ER_LOCK_WAIT_TIMEOUT", Condition::Locked);
        check(1213, "40001", "ER_LOCK_DEADLOCK", Condition::Unavailable);
        check(1226, "42000", "ER_USER_LIMIT_REACHED", Condition::Unavailable);
        check(1290, "HY000", "ER_OPTION_PREVENTS_STATEMENT", Condition::Unavailable);
        check(1317, "70100", "ER_QUERY_INTERRUPTED", Condition::Cancelled);
        check(
            1792,
            "25006",
            "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
            Condition::Unavailable,
        );
        check(1836, "HY000", "ER_READ_ONLY_MODE", Condition::Unavailable);
        check(1927, "70100", "ER_CONNECTION_KILLED (MariaDB)", Condition::Unavailable);
        check(1969, "70100", "ER_STATEMENT_TIMEOUT (MariaDB)", Condition::Cancelled);
        check(2003, "HY000", "CR_CONN_HOST_ERROR", Condition::Unavailable);
        check(2006, "HY000", "CR_SERVER_GONE_ERROR", Condition::Unavailable);
        check(2013, "HY000", "CR_SERVER_LOST", Condition::Unavailable);
        check(3024, "HY000", "ER_QUERY_TIMEOUT (MySQL)", Condition::Cancelled);
        check(3572, "HY000", "ER_LOCK_NOWAIT (MySQL)", Condition::Locked);
        check(
            4031,
            "HY000",
            "ER_CLIENT_INTERACTION_TIMEOUT (MySQL)",
            Condition::Unavailable,
        );
        check(9001, "HY000", "the connect timeout of ProxySQL", Condition::Unavailable);
    }

    #[test]
    fn each_number_has_its_condition() {
        check(1022, "23000", "ER_DUP_KEY", Condition::Duplicate);
        check(1045, "28000", "ER_ACCESS_DENIED_ERROR", Condition::Other);
        check(1048, "23000", "ER_BAD_NULL_ERROR", Condition::InvalidValue);
        check(1062, "23000", "ER_DUP_ENTRY", Condition::Duplicate);
        check(1064, "42000", "ER_PARSE_ERROR", Condition::Other);
        check(1146, "42S02", "ER_NO_SUCH_TABLE", Condition::Other);
        check(1153, "08S01", "ER_NET_PACKET_TOO_LARGE", Condition::InvalidValue);
        check(1264, "22003", "ER_WARN_DATA_OUT_OF_RANGE", Condition::InvalidValue);
        check(1292, "22007", "ER_TRUNCATED_WRONG_VALUE", Condition::InvalidValue);
        check(
            1366,
            "22007",
            "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD",
            Condition::InvalidValue,
        );
        check(1406, "22001", "ER_DATA_TOO_LONG", Condition::InvalidValue);
        check(1452, "23000", "ER_NO_REFERENCED_ROW_2", Condition::Other);
        check(1644, "45000", "ER_SIGNAL_EXCEPTION", Condition::InvalidValue);
        check(3140, "22032", "ER_INVALID_JSON_TEXT", Condition::InvalidValue);
        check(3157, "22032", "ER_JSON_DOCUMENT_TOO_DEEP", Condition::InvalidValue);
        check(
            3819,
            "HY000",
            "ER_CHECK_CONSTRAINT_VIOLATED (MySQL)",
            Condition::InvalidValue,
        );
        check(4025, "23000", "ER_CONSTRAINT_FAILED (MariaDB)", Condition::InvalidValue);
        check(
            4025,
            "HY000",
            "ER_INNODB_AUTOEXTEND_SIZE_OUT_OF_RANGE (MySQL)",
            Condition::Other,
        );
    }

    #[test]
    fn a_number_that_no_table_knows_has_the_condition_of_its_state() {
        check(
            1047,
            "08S01",
            "ER_UNKNOWN_COM_ERROR: a Galera node joins",
            Condition::Unavailable,
        );
        check(
            3101,
            "40000",
            "ER_TRANSACTION_ROLLBACK_DURING_COMMIT",
            Condition::Unavailable,
        );
        check(1105, "HY000", "ER_UNKNOWN_ERROR", Condition::Other);
    }

    #[test]
    fn the_text_says_what_no_code_says() {
        let check = |number: u16, state: &str, message: &str, expected: Condition| {
            assert_eq!(
                condition(number, state, message),
                expected,
                "{number} ({state}) {message}"
            );
        };
        let missing = Condition::TablesMissing;
        check(
            1146,
            "42S02",
            "Table 'app.postroom_outbox_cursor' doesn't exist",
            missing,
        );
        check(
            1146,
            "42S02",
            "Table 'postroom_shop.orders' doesn't exist",
            Condition::Other,
        );
        check(1305, "42000", "PROCEDURE app.postroom_emit does not exist", missing);
        check(
            1305,
            "42000",
            "SAVEPOINT sqlx_savepoint_1 does not exist",
            Condition::Other,
        );
        for number in WITH_ERRNO {
            let full = "Got error 28 \"No space left on device\" from storage engine InnoDB";
            check(number, "HY000", full, Condition::DiskFull);
            check(number, "HY000", "Got error 5 \"Input/output error\"", Condition::Other);
        }
    }
}
