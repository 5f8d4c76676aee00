//! Appending in the caller's own transaction, for plain sqlx. SeaORM users have `postroom::emit`.

use postroom::{DomainEvent, Event, Result, db_clock, nudge};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};
use uuid::Uuid;

use crate::error;

macro_rules! row {
    () => {
        ", (?, ?, ?, ?, ?, ?, ?, ?)"
    };
}
macro_rules! seven {
    ($rows:ident) => {
        concat!($rows!(), $rows!(), $rows!(), $rows!(), $rows!(), $rows!(), $rows!())
    };
}
macro_rules! eight_rows {
    () => {
        concat!(row!(), seven!(row))
    };
}

/// The same statement with more and more rows, largest first. Few sizes, so that each stays prepared. Measured against
/// one JSON parameter through `json_each`: two thirds of its time per row.
const STATEMENTS: [(usize, &str); 3] = [
    (
        64,
        concat!(include_str!("../sql/append.sql"), seven!(row), seven!(eight_rows)),
    ),
    (8, concat!(include_str!("../sql/append.sql"), seven!(row))),
    (1, include_str!("../sql/append.sql")),
];

/// Emits one domain event in the caller's transaction; answers its id.
pub async fn emit<E: DomainEvent + ?Sized>(connection: &mut SqliteConnection, event: &E) -> Result<Uuid> {
    let event = Event::of(event)?;
    let id = event.id;
    append(connection, &[event]).await?;
    Ok(id)
}

/// Appends envelopes in the caller's transaction, in this order, many to a statement.
///
/// Begin the transaction with `begin immediate` ([`crate::Sqlite::begin`]): it then holds the write lock while it decides
/// what to emit, which is what gives the events of a key their order.
pub async fn append(connection: &mut SqliteConnection, events: &[Event]) -> Result<()> {
    for event in events {
        event.check()?;
    }
    let mut rest = events;
    for (rows, statement) in STATEMENTS {
        let chunks = rest.chunks_exact(rows);
        rest = chunks.remainder();
        for chunk in chunks {
            insert(connection, statement, chunk).await?;
        }
    }
    nudge::expect_commit();
    Ok(())
}

async fn insert(connection: &mut SqliteConnection, statement: &'static str, events: &[Event]) -> Result<()> {
    let mut query = sqlx::query(statement);
    for event in events {
        query = bind(query, event)?;
    }
    query
        .execute(connection)
        .await
        .map_err(error::while_doing("append to the outbox"))?;
    Ok(())
}

fn bind<'q>(query: Query<'q, Sqlite, SqliteArguments>, event: &'q Event) -> Result<Query<'q, Sqlite, SqliteArguments>> {
    Ok(query
        .bind(event.id.to_string())
        .bind(event.event_type.as_str())
        .bind(event.source.as_str())
        .bind(event.aggregate_type.as_str())
        .bind(event.aggregate_id.as_str())
        .bind(event.payload.get())
        .bind(serde_json::to_string(&event.headers)?)
        .bind(db_clock::sqlite_stamp(event.occurred_at)))
}
