//! Settings of SQLite that can cost committed events.

use postroom::{SettingCheck, Wanted};

pub(crate) const SETTINGS: &[SettingCheck] = &[
    SettingCheck {
        name: "journal_mode",
        sql: include_str!("../sql/setting_journal_mode.sql"),
        wanted: Wanted::OneOf(&["wal"]),
        advice: "another program changed it; run `pragma journal_mode = wal` on the file",
    },
    SettingCheck {
        name: "synchronous",
        sql: include_str!("../sql/setting_synchronous.sql"),
        wanted: Wanted::OneOf(&["full", "extra"]),
        advice: "the last moments before a power cut may be lost; remove synchronous=normal from the URL",
    },
];
