//! A Python that can talk to the databases and to AMQP: the guide's examples are run as they stand, and our messages read.

use std::process::{Command, Stdio};

/// Debian's own, whatever else stands first on the path.
const DEBIAN: &str = "/usr/bin/python3";

/// The packages that are missing.
pub(super) fn missing() -> Vec<&'static str> {
    match program() {
        Some(_) => Vec::new(),
        None => vec!["python3", "python3-psycopg", "python3-pymysql", "python3-pika"],
    }
}

/// The first Python that has the drivers.
pub(super) fn program() -> Option<&'static str> {
    [DEBIAN, "python3"].into_iter().find(|program| {
        let mut command = Command::new(program);
        command
            .args(["-c", "import pika, psycopg, pymysql, sqlite3"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}
