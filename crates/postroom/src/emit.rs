//! Emitting: an event becomes a row in the caller's own transaction, or no row at all.
//!
//! These functions take a [`crate::Tx`] or a transaction of SeaORM. For a transaction of sqlx, use the functions of the store crate
//! (`postroom_postgres::emit(&mut tx, …)`). Other languages have the SQL function.

pub(crate) mod ingest;
pub mod nudge;

use crate::error::{Error, Result};
use crate::event::{DomainEvent, Event, check_time};
use crate::store::db_clock::stamp;
use crate::store::table::{self, EVENT_COLUMNS, Table, event_values, uuid_value};
use crate::store::tx::Transaction;
use sea_orm::DbBackend;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use time::OffsetDateTime;
use uuid::Uuid;

/// Rows in one statement: far below every driver's limit on bound values.
const ROWS_MAX: usize = 500;

/// Emits one domain event in the caller's transaction; answers its id.
pub async fn emit<E: DomainEvent + ?Sized>(tx: &impl Transaction, event: &E) -> Result<Uuid> {
    let event = Event::of(event)?;
    let id = event.id;
    append(tx, &[event]).await?;
    Ok(id)
}

/// Appends envelopes in the caller's transaction, in this order, many to a statement.
///
/// Lock (or change) the aggregate *before* you append: that is what gives its events an order.
pub async fn append(tx: &impl Transaction, events: &[Event]) -> Result<()> {
    for event in events {
        event.check()?;
    }
    insert(tx, events).await
}

/// Appends envelopes that were checked when they were taken in.
pub(crate) async fn insert(tx: &impl Transaction, events: &[Event]) -> Result<()> {
    let backend = tx.get_database_backend();
    let target = match backend {
        DbBackend::MySql => Table::Incoming,
        _ => Table::Outbox,
    };
    for chunk in table::batches(events, ROWS_MAX, |event| event.payload.get().len()) {
        let mut insert = Query::insert();
        insert.into_table(table::named(tx, target)).columns(EVENT_COLUMNS);
        for event in chunk {
            insert.values_panic(event_values(backend, event)?);
        }
        tx.execute(&insert)
            .await
            .map_err(|source| Error::db("append to the outbox", source))?;
    }
    nudge::expect_commit();
    Ok(())
}

/// Emits one domain event when its time comes; answers its id, with which it can be cancelled.
///
/// It enters the outbox within a second of `due_at` by the database's clock, also after a restart.
pub async fn emit_at<E: DomainEvent + ?Sized>(
    tx: &impl Transaction,
    event: &E,
    due_at: OffsetDateTime,
) -> Result<Uuid> {
    let event = Event::of(event)?;
    schedule(tx, &event, due_at).await?;
    Ok(event.id)
}

/// Schedules an envelope; see [`emit_at`].
pub async fn schedule(tx: &impl Transaction, event: &Event, due_at: OffsetDateTime) -> Result<()> {
    event.check()?;
    check_due_at(due_at)?;
    let backend = tx.get_database_backend();
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Scheduled))
        .columns(EVENT_COLUMNS.into_iter().chain(["due_at"]))
        .values_panic(
            event_values(backend, event)?
                .into_iter()
                .chain([Expr::val(stamp(backend, due_at))]),
        );
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("schedule an event", source))?;
    nudge::expect_commit();
    Ok(())
}

/// Checks that every database can keep this time.
pub fn check_due_at(due_at: OffsetDateTime) -> Result<()> {
    check_time("due_at", due_at)
}

/// Cancels a scheduled event; `false` when it is not waiting any more (or never was).
pub async fn cancel(tx: &impl Transaction, event_id: Uuid) -> Result<bool> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Scheduled))
        .and_where(Expr::col("event_id").eq(uuid_value(tx.get_database_backend(), event_id)));
    let done = tx
        .execute(&delete)
        .await
        .map_err(|source| Error::db("cancel a scheduled event", source))?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_due_time_lies_between_1970_and_9999_in_utc() {
        let check =
            |due_at: OffsetDateTime, is_fine: bool| assert_eq!(check_due_at(due_at).is_ok(), is_fine, "{due_at}");
        check(datetime!(1970-01-01 0:00 UTC), true);
        check(datetime!(1970-01-01 0:00 +1), false);
        check(datetime!(1969-12-31 23:00 -1), true);
        check(datetime!(9999-12-31 23:59 UTC), true);
        check(datetime!(9999-12-31 23:59 -1), false);
        check(datetime!(0000-01-01 0:00 UTC), false);
    }
}
