//! Appending in the caller's own transaction, for users of plain sqlx.

use postroom::{DomainEvent, Error, ErrorKind, Event, Result, nudge};
use serde::Serialize;
use sqlx::MySqlConnection;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};
use uuid::Uuid;

use crate::error::db;

/// Rows in one statement.
const ROWS_MAX: usize = 1_000;

/// Where a statement is closed, in bytes of JSON. With one more event, whose text may double when it is quoted, it is
/// still far below MariaDB's default `max_allowed_packet` of 16 MiB.
const BYTES_MAX: usize = 4 << 20;

const DATETIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]");

/// Emits one domain event in the caller's transaction; answers its id.
pub async fn emit<E: DomainEvent + ?Sized>(conn: &mut MySqlConnection, event: &E) -> Result<Uuid> {
    let event = Event::of(event)?;
    let id = event.id;
    append(conn, &[event]).await?;
    Ok(id)
}

/// Appends envelopes in the caller's transaction, in this order, many to a statement.
///
/// Lock (or change) the aggregate *before* you append: that is what gives its events an order. After an error roll
/// back: a part may have been written.
pub async fn append(conn: &mut MySqlConnection, events: &[Event]) -> Result<()> {
    for event in events {
        event.check()?;
    }
    match events {
        [event] => append_one(conn, event).await?,
        _ => append_many(conn, events).await?,
    }
    nudge::expect_commit();
    Ok(())
}

async fn append_one(conn: &mut MySqlConnection, event: &Event) -> Result<()> {
    sqlx::query(include_str!("../sql/append_one.sql"))
        .bind(event.id.to_string())
        .bind(&event.event_type)
        .bind(&event.source)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(event.payload.get())
        .bind(serde_json::to_string(&event.headers)?)
        .bind(datetime(event.occurred_at))
        .execute(conn)
        .await
        .map_err(|source| db("append to the outbox", source))?;
    Ok(())
}

/// A `datetime(6)`, which knows no zone: always UTC.
pub(crate) fn datetime(instant: OffsetDateTime) -> PrimitiveDateTime {
    let utc = instant.to_offset(UtcOffset::UTC);
    PrimitiveDateTime::new(utc.date(), utc.time())
}

async fn append_many(conn: &mut MySqlConnection, events: &[Event]) -> Result<()> {
    for array in arrays(events)? {
        sqlx::query(include_str!("../sql/append_many.sql"))
            .bind(array)
            .execute(&mut *conn)
            .await
            .map_err(|source| db("append to the outbox", source))?;
    }
    Ok(())
}

/// The events as JSON arrays, each good for one statement.
fn arrays(events: &[Event]) -> Result<Vec<String>> {
    let mut arrays = Vec::new();
    let mut array = String::new();
    let mut rows = 0;
    for event in events {
        array.push(if rows == 0 { '[' } else { ',' });
        array.push_str(&Row::of(event)?);
        rows += 1;
        if rows == ROWS_MAX || array.len() >= BYTES_MAX {
            array.push(']');
            arrays.push(std::mem::take(&mut array));
            rows = 0;
        }
    }
    if rows > 0 {
        array.push(']');
        arrays.push(array);
    }
    Ok(arrays)
}

/// An event as `append_many.sql` takes it: its JSON as strings.
#[derive(Serialize)]
struct Row<'a> {
    event_id: Uuid,
    event_type: &'a str,
    source: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    payload: &'a str,
    headers: String,
    occurred_at: String,
}

impl<'a> Row<'a> {
    fn of(event: &'a Event) -> Result<String> {
        let occurred_at = event
            .occurred_at
            .to_offset(UtcOffset::UTC)
            .format(DATETIME)
            .map_err(|source| Error::caused(ErrorKind::Invalid, "write occurred_at", source))?;
        Ok(serde_json::to_string(&Self {
            event_id: event.id,
            event_type: &event.event_type,
            source: &event.source,
            aggregate_type: &event.aggregate_type,
            aggregate_id: &event.aggregate_id,
            payload: event.payload.get(),
            headers: serde_json::to_string(&event.headers)?,
            occurred_at,
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: usize, payload_bytes: usize) -> Vec<Event> {
        let payload = format!("\"{}\"", "x".repeat(payload_bytes));
        (0..count)
            .map(|n| Event::new("a.b", "a", n.to_string(), postroom::parse_payload(&payload).unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn statements_are_bounded_in_rows_and_bytes() {
        let sizes = |events: &[Event]| {
            arrays(events)
                .unwrap()
                .iter()
                .map(|array| serde_json::from_str::<Vec<serde_json::Value>>(array).unwrap().len())
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&events(3, 1)), [3]);
        assert_eq!(sizes(&events(2_001, 1)), [1_000, 1_000, 1]);
        assert_eq!(sizes(&events(12, 900_000)), [5, 5, 2]);
    }
}
