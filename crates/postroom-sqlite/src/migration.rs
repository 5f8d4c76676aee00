//! The platform's tables on SQLite, oldest first. Shipped files are never edited.

use postroom::Migration;

/// The tables, oldest step first.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "outbox",
        up: include_str!("../migrations/0001_outbox.up.sql"),
        down: include_str!("../migrations/0001_outbox.down.sql"),
    },
    Migration {
        number: 2,
        name: "delivery",
        up: include_str!("../migrations/0002_delivery.up.sql"),
        down: include_str!("../migrations/0002_delivery.down.sql"),
    },
    Migration {
        number: 3,
        name: "schedule_and_jobs",
        up: include_str!("../migrations/0003_schedule_and_jobs.up.sql"),
        down: include_str!("../migrations/0003_schedule_and_jobs.down.sql"),
    },
    Migration {
        number: 4,
        name: "audit",
        up: include_str!("../migrations/0004_audit.up.sql"),
        down: include_str!("../migrations/0004_audit.down.sql"),
    },
    Migration {
        number: 5,
        name: "lookups",
        up: include_str!("../migrations/0005_lookups.up.sql"),
        down: include_str!("../migrations/0005_lookups.down.sql"),
    },
    Migration {
        number: 6,
        name: "alert",
        up: include_str!("../migrations/0006_alert.up.sql"),
        down: include_str!("../migrations/0006_alert.down.sql"),
    },
    Migration {
        number: 7,
        name: "down",
        up: include_str!("../migrations/0007_down.up.sql"),
        down: include_str!("../migrations/0007_down.down.sql"),
    },
    Migration {
        number: 8,
        name: "route_change",
        up: include_str!("../migrations/0008_route_change.up.sql"),
        down: include_str!("../migrations/0008_route_change.down.sql"),
    },
    Migration {
        number: 9,
        name: "feed",
        up: include_str!("../migrations/0009_feed.up.sql"),
        down: include_str!("../migrations/0009_feed.down.sql"),
    },
    Migration {
        number: 10,
        name: "schedule_in_sql",
        up: include_str!("../migrations/0010_schedule_in_sql.up.sql"),
        down: include_str!("../migrations/0010_schedule_in_sql.down.sql"),
    },
    Migration {
        number: 11,
        name: "access",
        up: include_str!("../migrations/0011_access.up.sql"),
        down: include_str!("../migrations/0011_access.down.sql"),
    },
    Migration {
        number: 12,
        name: "probe",
        up: include_str!("../migrations/0012_probe.up.sql"),
        down: include_str!("../migrations/0012_probe.down.sql"),
    },
];
