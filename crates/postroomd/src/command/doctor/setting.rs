//! Settings of the database that decide whether what was committed is still there after a crash, and traps of each server.

use postroom::Inspect;

use super::Finding;
use crate::store::{Kind, ask};

/// A setting, what it should be, and what it means when it is not.
struct Setting {
    name: &'static str,
    sql: &'static str,
    wanted: Wanted,
    next: &'static str,
}

/// Which values are good.
enum Wanted {
    OneOf(&'static [&'static str]),
    AtLeast(u64),
}

impl Wanted {
    fn takes(&self, value: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&value),
            Self::AtLeast(least) => value.parse::<u64>().is_ok_and(|value| value >= *least),
        }
    }
}

/// One process opens up to 35; a second one, and your own service, need some too.
const CONNECTIONS: Wanted = Wanted::AtLeast(80);

/// The next step when the server allows fewer connections.
const MORE_CONNECTIONS: &str =
    "one process of Postroom opens up to 35 connections, and your service its own; set max_connections = 100 or more";

const SQLITE: &[Setting] = &[
    Setting {
        name: "journal_mode",
        sql: include_str!("../../../sql/journal_mode.sqlite.sql"),
        wanted: Wanted::OneOf(&["wal"]),
        next: "another program changed it; run `pragma journal_mode = wal` on the file",
    },
    Setting {
        name: "synchronous",
        sql: include_str!("../../../sql/synchronous.sqlite.sql"),
        wanted: Wanted::OneOf(&["full", "extra"]),
        next: "the last moments before a power cut may be lost; remove synchronous=normal from the URL",
    },
];

const POSTGRES: &[Setting] = &[
    Setting {
        name: "synchronous_commit",
        sql: include_str!("../../../sql/synchronous_commit.postgres.sql"),
        wanted: Wanted::OneOf(&["on", "local", "remote_write", "remote_apply"]),
        next: "the last commits before a crash may be lost; set synchronous_commit = on",
    },
    Setting {
        name: "fsync",
        sql: include_str!("../../../sql/fsync.postgres.sql"),
        wanted: Wanted::OneOf(&["on"]),
        next: "a crash may corrupt the database; set fsync = on",
    },
    Setting {
        name: "max_connections",
        sql: include_str!("../../../sql/free_connections.postgres.sql"),
        wanted: CONNECTIONS,
        next: MORE_CONNECTIONS,
    },
];

const MYSQL: &[Setting] = &[
    Setting {
        name: "innodb_flush_log_at_trx_commit",
        sql: include_str!("../../../sql/flush_log.mysql.sql"),
        wanted: Wanted::OneOf(&["1"]),
        next: "the last second before a crash may be lost; set innodb_flush_log_at_trx_commit = 1",
    },
    Setting {
        name: "innodb_doublewrite",
        sql: include_str!("../../../sql/doublewrite.mysql.sql"),
        wanted: Wanted::OneOf(&["1", "ON"]),
        next: "a crash may corrupt pages; set innodb_doublewrite = on",
    },
    Setting {
        name: "log_bin_trust_function_creators",
        sql: include_str!("../../../sql/trigger_rights.mysql.sql"),
        wanted: Wanted::OneOf(&[
            "no binary log",
            "on",
            "off, and the triggers are there",
            "off, and this user has SUPER",
        ]),
        next: "`postroom migrate` cannot create its triggers; as an administrator set persist \
               log_bin_trust_function_creators = 1 (MySQL) or set global … (MariaDB), or migrate as a user with SUPER",
    },
    Setting {
        name: "binlog_format",
        sql: include_str!("../../../sql/binlog_format.mysql.sql"),
        wanted: Wanted::OneOf(&["no binary log", "ROW", "MIXED"]),
        next: "statements of Postroom cannot be logged as text; set binlog_format = row",
    },
    Setting {
        name: "wait_timeout",
        sql: include_str!("../../../sql/wait_timeout.mysql.sql"),
        wanted: Wanted::AtLeast(60),
        next: "the server closes connections that rest for less than a minute; set wait_timeout = 60 or more",
    },
    Setting {
        name: "max_connections",
        sql: include_str!("../../../sql/free_connections.mysql.sql"),
        wanted: CONNECTIONS,
        next: MORE_CONNECTIONS,
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
            Ok(value) if setting.wanted.takes(&value) => Finding::ok(setting.name, value),
            Ok(value) => Finding::warn(setting.name, value, setting.next),
            Err(says) => Finding::warn(setting.name, says, "check that the user may read settings"),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn a_value_is_good_if_it_is_listed_or_large_enough() {
        let listed = Wanted::OneOf(&["on", "off"]);
        assert!(listed.takes("on") && !listed.takes("ON"));
        let least = Wanted::AtLeast(60);
        assert!(least.takes("60") && !least.takes("59") && !least.takes("many"));
    }
}
