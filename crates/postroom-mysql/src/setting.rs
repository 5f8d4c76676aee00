//! Settings of MySQL and MariaDB that can cost committed events, stop migrations or close connections.

use postroom::{SettingCheck, Wanted};

pub(crate) const SETTINGS: &[SettingCheck] = &[
    SettingCheck {
        name: "innodb_flush_log_at_trx_commit",
        sql: include_str!("../sql/setting_flush_log.sql"),
        wanted: Wanted::OneOf(&["1"]),
        advice: "the last second before a crash may be lost; set innodb_flush_log_at_trx_commit = 1",
    },
    SettingCheck {
        name: "innodb_doublewrite",
        sql: include_str!("../sql/setting_doublewrite.sql"),
        wanted: Wanted::OneOf(&["1", "ON"]),
        advice: "a crash may corrupt pages; set innodb_doublewrite = on",
    },
    SettingCheck {
        name: "log_bin_trust_function_creators",
        sql: include_str!("../sql/setting_trigger_rights.sql"),
        wanted: Wanted::OneOf(&[
            "no binary log",
            "on",
            "off, and the triggers are there",
            "off, and this user has SUPER",
        ]),
        advice: "the migrations cannot create their triggers; as an administrator set persist \
                 log_bin_trust_function_creators = 1 (MySQL) or set global … (MariaDB), or migrate as a user with SUPER",
    },
    SettingCheck {
        name: "binlog_format",
        sql: include_str!("../sql/setting_binlog_format.sql"),
        wanted: Wanted::OneOf(&["no binary log", "ROW", "MIXED"]),
        advice: "statements of Postroom cannot be logged as text; set binlog_format = row",
    },
    SettingCheck {
        name: "wait_timeout",
        sql: include_str!("../sql/setting_wait_timeout.sql"),
        wanted: Wanted::AtLeast(60),
        advice: "the server closes connections that rest for less than a minute; set wait_timeout = 60 or more",
    },
    SettingCheck::max_connections(include_str!("../sql/setting_max_connections.sql")),
];
