//! The tables of the module, one file for each thing that they keep. Only the definitions differ between databases: ids that the
//! database allots, and indexes of a part of a table.

use postroom::{Migration, clock};
use sea_orm::DbBackend;

/// The first migration.
pub(crate) fn migration(database: DbBackend) -> Migration {
    let (up, down) = match database {
        DbBackend::Postgres => (
            include_str!("../migrations/postgres/0001_community.up.sql"),
            include_str!("../migrations/postgres/0001_community.down.sql"),
        ),
        DbBackend::MySql => (
            include_str!("../migrations/mysql/0001_community.up.sql"),
            include_str!("../migrations/mysql/0001_community.down.sql"),
        ),
        _ => (
            include_str!("../migrations/sqlite/0001_community.up.sql"),
            include_str!("../migrations/sqlite/0001_community.down.sql"),
        ),
    };
    Migration {
        number: 1,
        name: "community",
        up,
        down,
    }
}

/// The current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}
