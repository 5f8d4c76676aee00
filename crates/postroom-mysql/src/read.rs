//! Reading the log by its gapless number.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use postroom::{Entry, Error, ErrorKind, Event, PAGE_BYTES, Page, Position, Result, lenient_json};
use sqlx::Row;
use sqlx::mysql::MySqlRow;
use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Mysql;
use crate::error::db;

/// Between two looks whether numbers are known to be on disk.
const CONFIRM_LOOK: Duration = Duration::from_millis(20);
/// By then a sequencer that died or stands still has lost its session, and another one has confirmed its numbers.
const CONFIRM_MAX: Duration = Duration::from_secs(8);

impl Mysql {
    pub(crate) async fn page(&self, after: Position, limit: usize) -> Result<Page> {
        let entries = self.entries(after.id, limit).await?;
        let next = match entries.last() {
            Some(last) => Position {
                id: last.id,
                ..Position::START
            },
            None => self.rebase(after).await?,
        };
        Ok(Page {
            entries: entries.into(),
            window: Position::START,
            next,
        })
    }

    pub(crate) async fn end(&self) -> Result<Position> {
        let (given, durable_seq) = self.ask_head().await?;
        let (begun, mut end) = (Instant::now(), self.learn(durable_seq));
        // The sequencer may have published already what it knows to be on disk; others learn that with its next pulse.
        while end < given && begun.elapsed() < CONFIRM_MAX {
            tokio::time::sleep(CONFIRM_LOOK).await;
            let (_, durable_seq) = self.ask_head().await?;
            end = self.learn(durable_seq);
        }
        Ok(Position {
            id: end,
            ..Position::START
        })
    }

    /// Entries after `after`, until there are `limit` or their payloads fill a page.
    async fn entries(&self, after: i64, limit: usize) -> Result<Vec<Entry>> {
        let limit = limit.min(self.page_rows.load(Ordering::Relaxed)).max(1);
        let mut conn = self
            .reader
            .acquire()
            .await
            .map_err(|source| db("read the outbox", source))?;
        let mut rows = sqlx::query(include_str!("../sql/read.sql"))
            .bind(after)
            .bind(self.durable())
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch(&mut *conn);
        let mut entries = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.try_next().await.map_err(|source| db("read the outbox", source))? {
            let entry = read_entry(&row)?;
            bytes += entry.event.payload.get().len();
            entries.push(entry);
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        drop(rows);
        if bytes >= PAGE_BYTES && entries.len() < limit {
            // The server may still send a gigabyte; a new connection is cheaper than reading it.
            drop(conn.detach());
        }
        if let Some(mean) = bytes.checked_div(entries.len()) {
            self.page_rows.store(rows_for(mean), Ordering::Relaxed);
        }
        Ok(entries)
    }

    /// The same position; or the end of the log, if the position lies behind it. Then the database was replaced by an
    /// older copy, whose entries have all been delivered, and new ones will have numbers that were given before.
    async fn rebase(&self, after: Position) -> Result<Position> {
        if after.id <= self.durable() {
            return Ok(after);
        }
        let (end, _) = self.ask_head().await?;
        if after.id <= end {
            return Ok(after);
        }
        tracing::warn!(
            position = after.id,
            end,
            "the log ends before this position: an older copy was restored; going on at its end"
        );
        Ok(Position {
            id: end,
            ..Position::START
        })
    }

    /// The last number given, and the last that is known to every process to be on disk.
    async fn ask_head(&self) -> Result<(i64, i64)> {
        sqlx::query_as(include_str!("../sql/head.sql"))
            .fetch_one(&self.reader)
            .await
            .map_err(|source| db("read the head of the outbox", source))
    }
}

/// How many rows of this size make three quarters of a page: seldom more than a page, so that it is seldom cut.
fn rows_for(mean_bytes: usize) -> usize {
    (PAGE_BYTES / 4 * 3)
        .checked_div(mean_bytes)
        .unwrap_or(usize::MAX)
        .max(1)
}

pub(crate) fn read_entry(row: &MySqlRow) -> Result<Entry> {
    let id = row.try_get("id").map_err(broken)?;
    let event_id: String = row.try_get("event_id").map_err(broken)?;
    let occurred_at: PrimitiveDateTime = row.try_get("occurred_at").map_err(broken)?;
    let created_at: PrimitiveDateTime = row.try_get("created_at").map_err(broken)?;
    let event = Event {
        id: Uuid::parse_str(&event_id).map_err(|source| {
            Error::caused(
                ErrorKind::Failed,
                format!("read the id {event_id:?} of entry {id}"),
                source,
            )
        })?,
        event_type: row.try_get("event_type").map_err(broken)?,
        source: row.try_get("source").map_err(broken)?,
        aggregate_type: row.try_get("aggregate_type").map_err(broken)?,
        aggregate_id: row.try_get("aggregate_id").map_err(broken)?,
        payload: lenient_json::payload(row.try_get("payload").map_err(broken)?)?,
        headers: lenient_json::headers(row.try_get("headers").map_err(broken)?),
        occurred_at: occurred_at.assume_utc(),
    };
    Ok(Entry {
        id,
        event,
        created_at: created_at.assume_utc(),
    })
}

fn broken(source: sqlx::Error) -> Error {
    db("read an entry of the outbox", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rows_make_short_pages() {
        let check = |mean, expected| assert_eq!(rows_for(mean), expected, "{mean}");
        check(0, usize::MAX);
        check(1_000_000, 1);
        check(100_000, 15);
        check(100_000_000, 1);
    }
}
