//! Appending in the caller's own transaction, for users of plain sqlx. SeaORM's transaction has `postroom::append`.

use postroom::{DomainEvent, Event, Result, nudge};
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use sqlx::query::Query;
use uuid::Uuid;

use crate::error::driver;

const APPEND: &str = include_str!("../sql/append.sql");
const APPEND_ONE: &str = include_str!("../sql/append_one.sql");
/// Rows of one statement, and about how many bytes of payload: far below what one message may hold.
const ROWS_MAX: usize = 1_000;
const BYTES_MAX: usize = 16 << 20;

/// Emits one domain event in the transaction of `connection`; answers its id.
pub async fn emit<E: DomainEvent + ?Sized>(connection: &mut PgConnection, event: &E) -> Result<Uuid> {
    let event = Event::of(event)?;
    let id = event.id;
    append(connection, &[event]).await?;
    Ok(id)
}

/// Appends envelopes in the transaction of `connection`, in this order, many to a statement.
///
/// Lock (or change) the aggregate *before* you append: that is what gives its events an order.
pub async fn append(connection: &mut PgConnection, events: &[Event]) -> Result<()> {
    for event in events {
        event.check()?;
    }
    if let [event] = events {
        insert_one(connection, event).await?;
    } else {
        let mut rest = events;
        while !rest.is_empty() {
            let (chunk, tail) = rest.split_at(fitting(rest));
            insert(connection, chunk).await?;
            rest = tail;
        }
    }
    nudge::expect_commit();
    Ok(())
}

/// How many of these go into one statement; at least one.
fn fitting(events: &[Event]) -> usize {
    let mut bytes = 0;
    let fits = |event: &&Event| {
        bytes += event.payload.get().len();
        bytes <= BYTES_MAX
    };
    events
        .iter()
        .take(ROWS_MAX)
        .take_while(fits)
        .count()
        .max(1)
        .min(events.len())
}

async fn insert_one(connection: &mut PgConnection, event: &Event) -> Result<()> {
    let insert = sqlx::query(APPEND_ONE)
        .bind(event.id)
        .bind(&event.event_type)
        .bind(&event.source)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(event.payload.get())
        .bind(serde_json::to_string(&event.headers)?)
        .bind(event.occurred_at);
    execute(connection, insert).await
}

async fn insert(connection: &mut PgConnection, events: &[Event]) -> Result<()> {
    let headers = events
        .iter()
        .map(|event| serde_json::to_string(&event.headers))
        .collect::<Result<Vec<_>, _>>()?;
    let insert = sqlx::query(APPEND)
        .bind(column(events, |event| event.id))
        .bind(column(events, |event| event.event_type.as_str()))
        .bind(column(events, |event| event.source.as_str()))
        .bind(column(events, |event| event.aggregate_type.as_str()))
        .bind(column(events, |event| event.aggregate_id.as_str()))
        .bind(column(events, |event| event.payload.get()))
        .bind(headers)
        .bind(column(events, |event| event.occurred_at));
    execute(connection, insert).await
}

async fn execute(connection: &mut PgConnection, insert: Query<'_, Postgres, PgArguments>) -> Result<()> {
    insert
        .execute(connection)
        .await
        .map_err(|source| driver("append to the outbox", source))?;
    Ok(())
}

fn column<'e, T>(events: &'e [Event], value: impl Fn(&'e Event) -> T) -> Vec<T> {
    events.iter().map(value).collect()
}
