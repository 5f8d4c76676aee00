//! The table of activity events, on three databases.

mod insert;
mod limit;
mod read;
mod update;

use postroom::Migration;
use sea_orm::DbBackend;

pub(crate) use insert::insert_new;
pub(crate) use limit::{begin_limited, limit_waits};
pub(crate) use read::{by_ids, row_to_event, select_events};
pub(crate) use update::update;

/// The table with one row per event.
pub(crate) const TABLE: &str = "user_activity_event";

/// Its columns, in the order in which events are written and read.
pub(crate) const COLUMNS: [&str; 15] = [
    "event_id",
    "event_name",
    "event_version",
    "occurred_at",
    "member_id",
    "anonymous_id",
    "session_id",
    "source",
    "request_path",
    "request_method",
    "device_id",
    "platform",
    "app_version",
    "locale",
    "properties",
];

/// All migrations, oldest first.
pub(crate) fn migrations(database: DbBackend) -> Vec<Migration> {
    let (up, down) = match database {
        DbBackend::Postgres => (
            include_str!("../migrations/postgres/0001_event.up.sql"),
            include_str!("../migrations/postgres/0001_event.down.sql"),
        ),
        DbBackend::MySql => (
            include_str!("../migrations/mysql/0001_event.up.sql"),
            include_str!("../migrations/mysql/0001_event.down.sql"),
        ),
        _ => (
            include_str!("../migrations/sqlite/0001_event.up.sql"),
            include_str!("../migrations/sqlite/0001_event.down.sql"),
        ),
    };
    vec![
        Migration {
            number: 1,
            name: "event",
            up,
            down,
        },
        Migration {
            number: 2,
            name: "redispatch",
            up: include_str!("../migrations/0002_redispatch.up.sql"),
            down: include_str!("../migrations/0002_redispatch.down.sql"),
        },
        Migration {
            number: 3,
            name: "reprocess",
            up: include_str!("../migrations/0003_reprocess.up.sql"),
            down: include_str!("../migrations/0003_reprocess.down.sql"),
        },
    ]
}
