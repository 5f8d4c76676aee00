//! Looks for stored events: by member, name, source and time, newest first, page by page.

use postroom::db_clock::{read_stamp, stamp};
use postroom::{Error, ErrorKind, Result};
use sea_orm::sea_query::{Cond, Expr, ExprTrait as _, Order, SelectStatement};
use sea_orm::{ConnectionTrait, DbBackend};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

use crate::event::{ActivityEvent, Source};
use crate::tables::{row_to_event, select_events};

/// The most events of one page.
pub const PAGE_MAX: u64 = 1_000;

/// Which events to find. An empty filter finds all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EventFilter {
    /// Of this member.
    pub member_id: Option<i64>,
    /// With this name.
    pub event_name: Option<String>,
    /// Reported by this side.
    pub source: Option<Source>,
    /// Not before this time.
    #[serde(with = "rfc3339::option")]
    pub from: Option<OffsetDateTime>,
    /// Before this time.
    #[serde(with = "rfc3339::option")]
    pub until: Option<OffsetDateTime>,
}

impl EventFilter {
    pub(crate) fn condition(&self, backend: DbBackend) -> Cond {
        let column = Expr::col;
        Cond::all()
            .add_option(self.member_id.map(|id| column("member_id").eq(id)))
            .add_option(self.event_name.as_deref().map(|name| column("event_name").eq(name)))
            .add_option(self.source.map(|source| column("source").eq(source.name())))
            .add_option(self.from.map(|from| column("occurred_at").gte(stamp(backend, from))))
            .add_option(self.until.map(|until| column("occurred_at").lt(stamp(backend, until))))
    }
}

/// Where a page ends: the next one begins after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    occurred_at: OffsetDateTime,
    id: i64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.occurred_at.unix_timestamp_nanos() / 1_000, self.id)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (micros, id) = text.rsplit_once('-')?;
            let nanos = micros.parse::<i128>().ok()?.checked_mul(1_000)?;
            let occurred_at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
            Some(Self {
                occurred_at,
                id: id.parse().ok()?,
            })
        };
        read().ok_or_else(|| Error::invalid(format!("{text:?} is not the `next` of an earlier page")))
    }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredEvent {
    /// The number of its row.
    pub id: i64,
    /// When it was stored.
    #[serde(with = "rfc3339")]
    pub created_at: OffsetDateTime,
    /// The event.
    #[serde(flatten)]
    pub event: ActivityEvent,
}

/// One page of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// Newest first.
    pub events: Vec<StoredEvent>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<Cursor>,
}

/// The events that match, newest first, at most `limit` of them, after the end of an earlier page.
pub async fn find(
    db: &impl ConnectionTrait,
    filter: &EventFilter,
    after: Option<Cursor>,
    limit: u64,
) -> Result<EventPage> {
    let backend = db.get_database_backend();
    let limit = limit.clamp(1, PAGE_MAX);
    let mut select = select_events(backend);
    select
        .cond_where(filter.condition(backend))
        .order_by("occurred_at", Order::Desc)
        .order_by("id", Order::Desc)
        .limit(limit);
    if let Some(after) = after {
        let at = || Expr::val(stamp(backend, after.occurred_at));
        let same_time = Expr::col("occurred_at").eq(at()).and(Expr::col("id").lt(after.id));
        select.and_where(Expr::col("occurred_at").lt(at()).or(same_time));
    }
    let events = read(db, &select).await?;
    let is_full = events.len() as u64 == limit;
    let next = events.last().filter(|_| is_full).map(|last| Cursor {
        occurred_at: last.event.occurred_at,
        id: last.id,
    });
    Ok(EventPage { events, next })
}

/// The events that match, with a row number above `after` and up to `until`, oldest row first.
pub(crate) async fn by_row(
    db: &impl ConnectionTrait,
    filter: &EventFilter,
    (after, until): (i64, i64),
    limit: u64,
) -> Result<Vec<StoredEvent>> {
    let mut select = select_events(db.get_database_backend());
    select
        .cond_where(filter.condition(db.get_database_backend()))
        .and_where(Expr::col("id").gt(after))
        .and_where(Expr::col("id").lte(until))
        .order_by("id", Order::Asc)
        .limit(limit);
    read(db, &select).await
}

async fn read(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Vec<StoredEvent>> {
    let backend = db.get_database_backend();
    let rows = db.query_all(select).await;
    let rows = rows.map_err(|source| Error::db("read activity events", source))?;
    rows.iter()
        .map(|row| {
            let created_at = read_stamp(row, backend, "created_at")?;
            Ok(StoredEvent {
                id: row.try_get("", "id")?,
                created_at: created_at.ok_or_else(|| Error::new(ErrorKind::Failed, "the column created_at is null"))?,
                event: row_to_event(row, backend)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_700_000_000_123_456_000).unwrap();
        let cursor = Cursor { occurred_at: at, id: 7 };
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for broken in ["", "7", "a-b", "1-", "99999999999999999999999999-1"] {
            assert!(broken.parse::<Cursor>().is_err(), "{broken}");
        }
    }
}
