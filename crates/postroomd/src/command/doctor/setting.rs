//! Settings of the database that decide whether what was committed is still there after a crash.

use postroom::Inspect;

use super::{Finding, ask};
use crate::store::Kind;

/// A setting, what it should be, and what it means when it is not.
struct Setting {
    name: &'static str,
    sql: &'static str,
    wanted: &'static [&'static str],
    next: &'static str,
}

const SQLITE: &[Setting] = &[
    Setting {
        name: "journal_mode",
        sql: include_str!("../../../sql/journal_mode.sqlite.sql"),
        wanted: &["wal"],
        next: "another program changed it; run `pragma journal_mode = wal` on the file",
    },
    Setting {
        name: "synchronous",
        sql: include_str!("../../../sql/synchronous.sqlite.sql"),
        wanted: &["full", "extra"],
        next: "the last moments before a power cut may be lost; remove synchronous=normal from the URL",
    },
];

const POSTGRES: &[Setting] = &[
    Setting {
        name: "synchronous_commit",
        sql: include_str!("../../../sql/synchronous_commit.postgres.sql"),
        wanted: &["on", "local", "remote_write", "remote_apply"],
        next: "the last commits before a crash may be lost; set synchronous_commit = on",
    },
    Setting {
        name: "fsync",
        sql: include_str!("../../../sql/fsync.postgres.sql"),
        wanted: &["on"],
        next: "a crash may corrupt the database; set fsync = on",
    },
];

const MYSQL: &[Setting] = &[
    Setting {
        name: "innodb_flush_log_at_trx_commit",
        sql: include_str!("../../../sql/flush_log.mysql.sql"),
        wanted: &["1"],
        next: "the last second before a crash may be lost; set innodb_flush_log_at_trx_commit = 1",
    },
    Setting {
        name: "innodb_doublewrite",
        sql: include_str!("../../../sql/doublewrite.mysql.sql"),
        wanted: &["1", "ON"],
        next: "a crash may corrupt pages; set innodb_doublewrite = on",
    },
];

pub(super) async fn examine(kind: Kind, store: &dyn Inspect) -> Vec<Finding> {
    let settings = match kind {
        Kind::Sqlite => SQLITE,
        Kind::Postgres => POSTGRES,
        Kind::Mysql => MYSQL,
    };
    let mut findings = Vec::with_capacity(settings.len());
    for setting in settings {
        findings.push(match ask(store, setting.sql).await {
            Ok(value) if setting.wanted.contains(&value.as_str()) => Finding::ok(setting.name, value),
            Ok(value) => Finding::warn(setting.name, value, setting.next),
            Err(says) => Finding::warn(setting.name, says, "check that the user may read settings"),
        });
    }
    findings
}
