//! The meaning of PostgreSQL's SQLSTATEs. Names: Appendix A of PostgreSQL's manual, "PostgreSQL Error Codes".

use super::Condition;

/// The meaning of an error of PostgreSQL. The text counts in three cases only:
/// - an undefined object: no field names it, and tables of the application may be missing too;
/// - 08P01: PgBouncer sends its own errors with this code, see [`POOLER_UNAVAILABLE`];
/// - XX000: PostgreSQL has no code for a disk quota that is used up.
pub(super) fn condition(state: &str, message: &str) -> Condition {
    match state {
        // unique_violation
        "23505" => Condition::Duplicate,
        // read_only_sql_transaction: a standby
        "25006" => Condition::Unavailable,
        // idle_in_transaction_session_timeout, transaction_timeout: the server has closed the connection
        "25P03" | "25P04" => Condition::Unavailable,
        // serialization_failure (also a conflict with recovery on a standby), deadlock_detected
        "40001" | "40P01" => Condition::Unavailable,
        // undefined_table, undefined_function, invalid_schema_name
        "42P01" | "42883" if message.contains("postroom.") => Condition::TablesMissing,
        "3F000" if message.contains("postroom") => Condition::TablesMissing,
        // disk_full
        "53100" => Condition::DiskFull,
        // lock_not_available: lock_timeout, or NOWAIT
        "55P03" => Condition::Locked,
        // query_canceled: statement_timeout, or a request of a user
        "57014" => Condition::Cancelled,
        // protocol_violation
        "08P01" if POOLER_UNAVAILABLE.iter().any(|sign| message.contains(sign)) => Condition::Unavailable,
        "08P01" => Condition::Other,
        // internal_error
        "XX000" if message.contains("could not extend file") => Condition::DiskFull,
        _ => match state.get(..2) {
            // Connection exceptions; insufficient resources (memory, connections); operator intervention (shutdown, start).
            Some("08" | "53" | "57") => Condition::Unavailable,
            // Data exceptions; constraint violations; program limits (depth, size).
            Some("22" | "23" | "54") => Condition::InvalidValue,
            _ => Condition::Other,
        },
    }
}

/// PgBouncer's words for a server or a pooler that has no connection now or has closed one.
const POOLER_UNAVAILABLE: [&str; 22] = [
    "admin forced disconnect",
    "cannot connect to server",
    "client connections exceeded",
    "client_idle_timeout",
    "client_login_timeout",
    "closed the connection",
    "connect timeout",
    "database configuration changed",
    "idle transaction timeout",
    "no more connections allowed",
    "query timeout",
    "query_wait_timeout",
    "server DNS lookup failed",
    "server conn crashed",
    "server login has been failing",
    "shutting down",
    "transaction timeout",
    // Words of the server that PgBouncer repeats.
    "Broken pipe",
    "Connection refused",
    "Connection reset",
    "terminating connection",
    "the database system is",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_condition() {
        let check = |state: &str, name: &str, expected: Condition| {
            assert_eq!(condition(state, "words"), expected, "{state} {name}");
        };
        check("08000", "connection_exception", Condition::Unavailable);
        check("08006", "connection_failure", Condition::Unavailable);
        check("08P01", "protocol_violation", Condition::Other);
        check("22P02", "invalid_text_representation", Condition::InvalidValue);
        check("22P05", "untranslatable_character", Condition::InvalidValue);
        check("23502", "not_null_violation", Condition::InvalidValue);
        check("23503", "foreign_key_violation", Condition::InvalidValue);
        check("23505", "unique_violation", Condition::Duplicate);
        check("23514", "check_violation", Condition::InvalidValue);
        check("25006", "read_only_sql_transaction", Condition::Unavailable);
        check("25P02", "in_failed_sql_transaction", Condition::Other);
        check("25P03", "idle_in_transaction_session_timeout", Condition::Unavailable);
        check("25P04", "transaction_timeout", Condition::Unavailable);
        check("3D000", "invalid_catalog_name", Condition::Other);
        check("40001", "serialization_failure", Condition::Unavailable);
        check("40P01", "deadlock_detected", Condition::Unavailable);
        check("42501", "insufficient_privilege", Condition::Other);
        check("42601", "syntax_error", Condition::Other);
        check("53000", "insufficient_resources", Condition::Unavailable);
        check("53100", "disk_full", Condition::DiskFull);
        check("53200", "out_of_memory", Condition::Unavailable);
        check("53300", "too_many_connections", Condition::Unavailable);
        check("54001", "statement_too_complex", Condition::InvalidValue);
        check("55P03", "lock_not_available", Condition::Locked);
        check("57014", "query_canceled", Condition::Cancelled);
        check("57P01", "admin_shutdown", Condition::Unavailable);
        check("57P02", "crash_shutdown", Condition::Unavailable);
        check("57P03", "cannot_connect_now", Condition::Unavailable);
        check("57P05", "idle_session_timeout", Condition::Unavailable);
        check("58030", "io_error", Condition::Other);
        check("P0001", "raise_exception", Condition::Other);
        check("XX000", "internal_error", Condition::Other);
        check("", "none", Condition::Other);
    }

    #[test]
    fn the_text_says_what_no_code_says() {
        let check = |state: &str, message: &str, expected: Condition| {
            assert_eq!(condition(state, message), expected, "{state} {message}");
        };
        let missing = Condition::TablesMissing;
        check("42P01", "relation \"postroom.outbox_cursor\" does not exist", missing);
        check("42P01", "Relation »postroom.outbox_cursor« existiert nicht", missing);
        check("42P01", "relation \"orders\" does not exist", Condition::Other);
        check("42883", "function postroom.handled(json) does not exist", missing);
        check("42883", "function handled(json) does not exist", Condition::Other);
        check("3F000", "schema \"postroom\" does not exist", missing);
        check("3F000", "schema \"shop\" does not exist", Condition::Other);
        let quota = "could not extend file \"base/1/2\": Disk quota exceeded";
        check("XX000", quota, Condition::DiskFull);
        check(
            "XX000",
            "cache lookup failed for type 7: Connection refused",
            Condition::Other,
        );
        for sign in POOLER_UNAVAILABLE {
            check("08P01", &format!("pooler: {sign} (now)"), Condition::Unavailable);
        }
        check("08P01", "unsupported startup parameter: search_path", Condition::Other);
    }
}
