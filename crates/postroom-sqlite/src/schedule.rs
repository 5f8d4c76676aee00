//! Scheduling in the caller's own transaction, for users of plain sqlx. SeaORM users have `postroom::emit_at` and `postroom::cancel`.

use postroom::{DomainEvent, Event, Result, check_due_at, db_clock, nudge};
use sqlx::SqliteConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error;

/// Emits one domain event when its time comes; answers its id, by which it can be cancelled.
///
/// The event enters the outbox within a second of `due_at` by the database's clock, also after a restart.
pub async fn emit_at<E: DomainEvent + ?Sized>(
    connection: &mut SqliteConnection,
    event: &E,
    due_at: OffsetDateTime,
) -> Result<Uuid> {
    let event = Event::of(event)?;
    schedule(connection, &event, due_at).await?;
    Ok(event.id)
}

/// Schedules an envelope; see [`emit_at`].
pub async fn schedule(connection: &mut SqliteConnection, event: &Event, due_at: OffsetDateTime) -> Result<()> {
    event.check()?;
    check_due_at(due_at)?;
    sqlx::query(include_str!("../sql/schedule.sql"))
        .bind(event.id.to_string())
        .bind(&event.event_type)
        .bind(&event.source)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(event.payload.get())
        .bind(serde_json::to_string(&event.headers)?)
        .bind(db_clock::sqlite_stamp(event.occurred_at))
        .bind(db_clock::sqlite_stamp(due_at))
        .execute(connection)
        .await
        .map_err(error::while_doing("schedule an event"))?;
    nudge::expect_commit();
    Ok(())
}

/// Cancels a scheduled event; `false` when it does not wait any more, or never did.
pub async fn cancel(connection: &mut SqliteConnection, event_id: Uuid) -> Result<bool> {
    let done = sqlx::query(include_str!("../sql/cancel.sql"))
        .bind(event_id.to_string())
        .execute(connection)
        .await
        .map_err(error::while_doing("cancel a scheduled event"))?;
    Ok(done.rows_affected() > 0)
}
