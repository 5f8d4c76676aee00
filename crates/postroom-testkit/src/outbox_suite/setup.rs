//! The setup of the database: its version, the settings that can cost events, and its clock.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::collections::HashSet;
use std::time::{Duration, Instant};

use postroom::operate;
use sea_orm::DbBackend;

use crate::Fresh;

/// The version begins with the name of the database or, on MariaDB, contains it. A number follows.
pub async fn the_version_names_the_database(fresh: Fresh) {
    let version = fresh.version().await.unwrap();
    let is_named = match fresh.db().get_database_backend() {
        DbBackend::Postgres => version.starts_with("PostgreSQL "),
        DbBackend::MySql => version.starts_with("MySQL ") || version.contains("MariaDB"),
        _ => version.starts_with("SQLite "),
    };
    assert!(is_named, "{version:?} does not name the database");
    let has_number = version.chars().any(|letter| letter.is_ascii_digit());
    assert!(has_number, "{version:?} has no number");
}

/// The database answers every setting that the store checks. An answer that is not good comes with advice.
pub async fn every_checked_setting_is_answered(fresh: Fresh) {
    let reports = operate::settings(&*fresh).await;
    let names: HashSet<&str> = reports.iter().map(|report| report.name).collect();
    assert!(!names.is_empty(), "every database has a setting that can cost events");
    assert_eq!(names.len(), reports.len(), "one check for each setting: {reports:?}");
    for (report, check) in reports.iter().zip(fresh.settings()) {
        let value = report.value.as_ref().unwrap();
        assert!(!value.is_empty(), "{} has no value", report.name);
        assert_eq!(report.advice, check.advice_on(value), "{report:?}");
        assert!(!check.advice.is_empty(), "{} has no advice", check.name);
        assert_eq!(
            check.advice_on("?"),
            Some(check.advice),
            "a value that nobody knows is not good"
        );
    }
}

/// The servers of the tests run on this machine, so their clock is ours. The answer takes some time.
pub async fn a_database_on_this_machine_has_no_clock_skew(fresh: Fresh) {
    let begun = Instant::now();
    let skew = operate::clock_skew(&*fresh).await.unwrap();
    let error_max = begun.elapsed() + Duration::from_millis(50); // SQLite counts milliseconds
    assert!(
        skew.unsigned_abs() <= error_max,
        "{skew} instead of at most {error_max:?}"
    );
}
