//! The database's clock. It alone decides leases, retries and schedules, so that relays on machines whose clocks
//! disagree still agree.

use sea_orm::sea_query::{Expr, Query, Value};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use std::time::Duration;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::error::{Error, ErrorKind, Result};
use crate::store::tx::Tx;

/// Fixed width, so that SQLite compares instants by comparing text.
const SQLITE_STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// The database's clock as an expression.
pub(crate) fn db_now(backend: DbBackend) -> Expr {
    match backend {
        DbBackend::Postgres => Expr::cust("clock_timestamp()"),
        DbBackend::MySql => Expr::cust("utc_timestamp(6)"),
        _ => Expr::cust("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"),
    }
}

/// The database's clock, read.
pub(crate) async fn read_now(tx: &Tx) -> Result<OffsetDateTime> {
    let backend = tx.get_database_backend();
    let doing = "read the database's clock";
    let mut select = Query::select();
    select.expr_as(db_now(backend), "now");
    let row = tx.query_one(&select).await.map_err(|source| Error::db(doing, source))?;
    let now = row.map(|row| read_stamp(&row, backend, "now")).transpose()?;
    now.flatten().ok_or_else(|| Error::new(ErrorKind::Failed, doing))
}

/// The database's clock, moved on by `ahead`.
pub(crate) fn db_now_plus(backend: DbBackend, ahead: Duration) -> Expr {
    db_now_moved(backend, ahead.as_secs_f64())
}

/// The database's clock, moved back by `back`.
pub(crate) fn db_now_minus(backend: DbBackend, back: Duration) -> Expr {
    db_now_moved(backend, -back.as_secs_f64())
}

fn db_now_moved(backend: DbBackend, seconds: f64) -> Expr {
    match backend {
        DbBackend::Postgres => Expr::cust_with_values(
            "clock_timestamp() + $1::double precision * interval '1 second'",
            [seconds],
        ),
        DbBackend::MySql => Expr::cust_with_values(
            "timestampadd(microsecond, ?, utc_timestamp(6))",
            [(seconds * 1e6).round()],
        ),
        _ => Expr::cust_with_values(
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)",
            [format!("{seconds:+.3} seconds")],
        ),
    }
}

/// An instant as the column type of each database takes it: `timestamptz`, `datetime(6)` in UTC, and text on SQLite.
pub fn stamp(backend: DbBackend, at: OffsetDateTime) -> Value {
    let at = in_utc(at);
    match backend {
        DbBackend::Postgres => at.into(),
        DbBackend::MySql => PrimitiveDateTime::new(at.date(), at.time()).into(),
        _ => sqlite_stamp(at).into(),
    }
}

/// `Event::check` and `check_due_at` refuse times that do not exist in UTC; here such a time must not panic.
fn in_utc(at: OffsetDateTime) -> OffsetDateTime {
    at.checked_to_offset(UtcOffset::UTC)
        .unwrap_or_else(|| at.replace_offset(UtcOffset::UTC))
}

/// An instant as SQLite stores it: UTC, milliseconds, fixed width.
pub fn sqlite_stamp(at: OffsetDateTime) -> String {
    in_utc(at).format(SQLITE_STAMP).unwrap_or_default()
}

/// Reads back what [`sqlite_stamp`] wrote.
pub fn parse_sqlite_stamp(text: &str) -> Result<OffsetDateTime> {
    PrimitiveDateTime::parse(text, SQLITE_STAMP)
        .map(PrimitiveDateTime::assume_utc)
        .map_err(|source| Error::caused(ErrorKind::Failed, format!("read the time {text:?}"), source))
}

/// Reads an instant column that may be null.
pub fn read_stamp(row: &QueryResult, backend: DbBackend, column: &str) -> Result<Option<OffsetDateTime>> {
    Ok(match backend {
        DbBackend::Postgres => row.try_get("", column)?,
        DbBackend::MySql => row
            .try_get::<Option<PrimitiveDateTime>>("", column)?
            .map(PrimitiveDateTime::assume_utc),
        _ => match row.try_get::<Option<String>>("", column)? {
            Some(text) => Some(parse_sqlite_stamp(&text)?),
            None => None,
        },
    })
}
