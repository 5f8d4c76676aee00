//! Reading the log. Why the order is right stands in `sql/read.sql`.

use futures::TryStreamExt;
use postroom::{Entry, Error, ErrorKind, Event, PAGE_BYTES, Page, Position, Result, clock, stored};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlitePool};
use uuid::Uuid;

use crate::error;

/// The next page. Rows are streamed, so that a page of large payloads is cut before they are all in memory.
pub(crate) async fn read(readers: &SqlitePool, after: Position, limit: usize) -> Result<Page> {
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
    Ok(Position { id, ..Position::START })
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
        payload: stored::payload(&text(row, 6)?)?,
        headers: stored::headers(&text(row, 7)?),
        occurred_at: clock::parse_sqlite_stamp(&text(row, 8)?)?,
    };
    Ok(Entry {
        id: row.try_get(0).map_err(error::while_doing("read an id"))?,
        event,
        created_at: clock::parse_sqlite_stamp(&text(row, 9)?)?,
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
