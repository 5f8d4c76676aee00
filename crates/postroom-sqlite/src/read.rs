//! Reading the log. Why the order is right stands in `sql/read.sql`.
//!
//! A position is the number of the last entry taken, with a fingerprint of its event in `to`: a log that was numbered anew may
//! have passed that number already, with another event. A position inside a page has no fingerprint (0).

use futures::TryStreamExt;
use postroom::{Entry, Error, ErrorKind, Event, PAGE_BYTES, Page, Position, Result, db_clock, lenient_json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlitePool};
use uuid::Uuid;

use crate::error;

/// The next page. Rows are streamed, so that a page of large payloads is cut before they are all in memory.
pub(crate) async fn read(readers: &SqlitePool, after: Position, limit: usize) -> Result<Page> {
    if is_of_another_log(readers, after).await? {
        tracing::warn!(%after, "the outbox was numbered anew; reading it again from the start");
        return Ok(Page {
            entries: Vec::new().into(),
            window: Position::START,
            next: Position::START,
        });
    }
    let mut rows = sqlx::query(include_str!("../sql/read.sql"))
        .bind(after.id)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch(readers);
    let mut entries = Vec::new();
    let mut bytes = 0;
    while bytes < PAGE_BYTES
        && let Some(row) = rows.try_next().await.map_err(error::while_doing("read the outbox"))?
    {
        let entry = entry(&row)?;
        bytes += entry.event.payload.get().len();
        entries.push(entry);
    }
    drop(rows);
    let next = match entries.last() {
        Some(last) => Position {
            to: fingerprint(last.event.id),
            id: last.id,
            ..Position::START
        },
        None => at_the_head(readers, after).await?,
    };
    Ok(Page {
        entries: entries.into(),
        window: Position::START,
        next,
    })
}

pub(crate) async fn head(readers: &SqlitePool) -> Result<Position> {
    let id = sqlx::query_scalar(include_str!("../sql/head.sql"))
        .fetch_one(readers)
        .await
        .map_err(error::while_doing("find the head of the outbox"))?;
    let to = event_at(readers, id).await?.map_or(0, fingerprint);
    Ok(Position {
        to,
        id,
        ..Position::START
    })
}

/// Whether another event stands where the last one was taken. One that retention has removed tells nothing.
async fn is_of_another_log(readers: &SqlitePool, after: Position) -> Result<bool> {
    if after.to == 0 {
        return Ok(false);
    }
    let event = event_at(readers, after.id).await?;
    Ok(event.is_some_and(|event| fingerprint(event) != after.to))
}

async fn event_at(readers: &SqlitePool, id: i64) -> Result<Option<Uuid>> {
    let event_id: Option<String> = sqlx::query_scalar(include_str!("../sql/at.sql"))
        .bind(id)
        .fetch_optional(readers)
        .await
        .map_err(error::while_doing("look at the last entry taken"))?;
    Ok(event_id.and_then(|text| Uuid::parse_str(&text).ok()))
}

/// The random half of an event's id, never 0.
fn fingerprint(event: Uuid) -> i64 {
    let (_, low) = event.as_u64_pair();
    (low & u64::MAX >> 1).cast_signed() | 1
}

/// A position ahead of every id ever drawn means that the numbering began anew: `sqlite_sequence` was emptied, or the
/// table was rebuilt without it. Then every entry is read again, because the new ones hide among the small numbers.
async fn at_the_head(readers: &SqlitePool, after: Position) -> Result<Position> {
    let head = head(readers).await?;
    if after.id <= head.id {
        return Ok(after);
    }
    tracing::warn!(%after, %head, "the outbox was numbered anew; reading it again from the start");
    Ok(Position::START)
}

fn entry(row: &SqliteRow) -> Result<Entry> {
    let event_id = text(row, 1)?;
    let event = Event {
        id: Uuid::parse_str(&event_id).map_err(unreadable(row))?,
        event_type: text(row, 2)?,
        source: text(row, 3)?,
        aggregate_type: text(row, 4)?,
        aggregate_id: text(row, 5)?,
        payload: lenient_json::payload(&text(row, 6)?)?,
        headers: lenient_json::headers(&text(row, 7)?),
        occurred_at: db_clock::parse_sqlite_stamp(&text(row, 8)?)?,
    };
    Ok(Entry {
        id: row.try_get(0).map_err(error::while_doing("read an id"))?,
        event,
        created_at: db_clock::parse_sqlite_stamp(&text(row, 9)?)?,
    })
}

/// SQLite does not check that text is UTF-8 and no constraint can; a broken character must not stop the log.
fn text(row: &SqliteRow, column: usize) -> Result<String> {
    let bytes: Vec<u8> = row.try_get(column).map_err(error::while_doing("read an entry"))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned()))
}

fn unreadable<E: std::error::Error + Send + Sync + 'static>(row: &SqliteRow) -> impl FnOnce(E) -> Error {
    let id: i64 = row.try_get(0).unwrap_or_default();
    move |source| Error::caused(ErrorKind::Failed, format!("read entry {id}"), source)
}
