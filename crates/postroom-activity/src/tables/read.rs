//! Reads stored events.

use postroom::db_clock::read_stamp;
use postroom::{Error, ErrorKind, Result};
use sea_orm::sea_query::{Expr, ExprTrait as _, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};

use super::{COLUMNS, TABLE};
use crate::event::{ActivityEvent, Source};

/// Selects all columns of an event.
pub(crate) fn select_events(backend: DbBackend) -> SelectStatement {
    let mut select = Query::select();
    select.column("id").column("created_at").from(TABLE);
    for column in COLUMNS {
        match (column, backend) {
            ("properties", DbBackend::Postgres) => {
                select.expr_as(Expr::col(column).cast_as("text"), column);
            }
            ("properties", DbBackend::MySql) => {
                select.expr_as(Expr::col(column).cast_as("char"), column);
            }
            _ => {
                select.column(column);
            }
        }
    }
    select
}

/// The stored events with these ids.
pub(crate) async fn by_ids(db: &impl ConnectionTrait, ids: &[&str]) -> Result<Vec<ActivityEvent>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let backend = db.get_database_backend();
    let mut select = select_events(backend);
    select.and_where(Expr::col("event_id").is_in(ids.iter().copied()));
    let rows = db.query_all(&select).await;
    let rows = rows.map_err(|source| Error::db("read activity events", source))?;
    rows.iter().map(|row| row_to_event(row, backend)).collect()
}

/// The event of a row that [`select_events`] has read.
pub(crate) fn row_to_event(row: &QueryResult, backend: DbBackend) -> Result<ActivityEvent> {
    let occurred_at = read_stamp(row, backend, "occurred_at")?;
    Ok(ActivityEvent {
        event_id: row.try_get("", "event_id")?,
        event_name: row.try_get("", "event_name")?,
        event_version: row.try_get("", "event_version")?,
        occurred_at: occurred_at.ok_or_else(|| Error::new(ErrorKind::Failed, "the column occurred_at is null"))?,
        member_id: row.try_get("", "member_id")?,
        anonymous_id: row.try_get("", "anonymous_id")?,
        session_id: row.try_get("", "session_id")?,
        source: Source::named(&row.try_get::<String>("", "source")?),
        request_path: row.try_get("", "request_path")?,
        request_method: row.try_get("", "request_method")?,
        device_id: row.try_get("", "device_id")?,
        platform: row.try_get("", "platform")?,
        app_version: row.try_get("", "app_version")?,
        locale: row.try_get("", "locale")?,
        properties: serde_json::from_str(&row.try_get::<String>("", "properties")?)?,
    })
}
