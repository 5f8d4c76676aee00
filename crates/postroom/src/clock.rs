//! The clock of this process, for ages and deadlines. Leases, retries and schedules follow the database's clock
//! ([`crate::db_clock`]).

use time::OffsetDateTime;

/// The process clock, in UTC.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
