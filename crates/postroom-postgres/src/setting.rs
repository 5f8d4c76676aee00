//! Settings of PostgreSQL that can cost committed events, or that leave too few connections.

use postroom::{SettingCheck, Wanted};

pub(crate) const SETTINGS: &[SettingCheck] = &[
    SettingCheck {
        name: "synchronous_commit",
        sql: include_str!("../sql/setting_synchronous_commit.sql"),
        wanted: Wanted::OneOf(&["on", "local", "remote_write", "remote_apply"]),
        advice: "the last commits before a crash may be lost; set synchronous_commit = on",
    },
    SettingCheck {
        name: "fsync",
        sql: include_str!("../sql/setting_fsync.sql"),
        wanted: Wanted::OneOf(&["on"]),
        advice: "a crash may corrupt the database; set fsync = on",
    },
    SettingCheck::max_connections(include_str!("../sql/setting_max_connections.sql")),
];
