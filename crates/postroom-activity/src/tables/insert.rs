//! Writes events that are not stored yet, in one statement for many.

use std::collections::HashSet;

use postroom::db_clock::stamp;
use postroom::{Error, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait as _, InsertStatement, OnConflict, Query};
use sea_orm::{ConnectionTrait as _, DbBackend, QueryResult};

use super::{COLUMNS, TABLE};
use crate::event::ActivityEvent;

/// Rows in one statement: SQLite takes 32,766 values, PostgreSQL and MySQL 65,535.
const ROWS_MAX: usize = 1_000;

/// Stores those of the events whose id is not stored yet; returns the ids of the new rows. Of several events with the same id, the
/// first one is stored.
pub(crate) async fn insert_new(tx: &Tx, events: &[ActivityEvent]) -> Result<HashSet<String>> {
    let mut seen = HashSet::new();
    let distinct: Vec<&ActivityEvent> = events
        .iter()
        .filter(|event| seen.insert(event.event_id.as_str()))
        .collect();
    let mut new = HashSet::new();
    for rows in distinct.chunks(ROWS_MAX) {
        let inserted = match tx.get_database_backend() {
            DbBackend::MySql => insert_mysql(tx, rows).await,
            backend => insert_returning(tx, rows, backend).await,
        };
        new.extend(inserted.map_err(|source| Error::db("store activity events", source))?);
    }
    Ok(new)
}

/// PostgreSQL and SQLite return the rows that they have inserted.
async fn insert_returning(tx: &Tx, rows: &[&ActivityEvent], backend: DbBackend) -> Result<Vec<String>, sea_orm::DbErr> {
    let mut insert = insert(rows, backend);
    insert
        .on_conflict(OnConflict::column("event_id").do_nothing().to_owned())
        .returning(Query::returning().column("event_id"));
    ids(&tx.query_all(&insert).await?)
}

/// MySQL returns no rows, only their count and the first of their ids, which follow each other.
///
/// `insert ignore` would also cut a text that is too long: [`ActivityEvent::check`] has refused it. If another transaction stores the
/// same events at the same moment, one that it has stored may count as new here too; its sinks know it by its id.
async fn insert_mysql(tx: &Tx, rows: &[&ActivityEvent]) -> Result<Vec<String>, sea_orm::DbErr> {
    let mut insert = DbBackend::MySql.build(&insert(rows, DbBackend::MySql));
    insert.sql = insert.sql.replacen("INSERT", "INSERT IGNORE", 1);
    let done = tx.execute_raw(insert).await?;
    let all = || rows.iter().map(|event| event.event_id.clone()).collect();
    match done.rows_affected() {
        0 => Ok(Vec::new()),
        count if count == rows.len() as u64 => Ok(all()),
        _ => {
            let first = i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX);
            let last = first.saturating_add(rows.len() as i64);
            let mut select = Query::select();
            select
                .column("event_id")
                .from(TABLE)
                .and_where(Expr::col("id").between(first, last))
                .and_where(Expr::col("event_id").is_in(rows.iter().map(|event| event.event_id.as_str())));
            ids(&tx.query_all(&select).await?)
        }
    }
}

fn ids(rows: &[QueryResult]) -> Result<Vec<String>, sea_orm::DbErr> {
    rows.iter().map(|row| row.try_get("", "event_id")).collect()
}

fn insert(rows: &[&ActivityEvent], backend: DbBackend) -> InsertStatement {
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns(COLUMNS);
    for event in rows {
        insert.values_panic(values(event, backend));
    }
    insert
}

fn values(event: &ActivityEvent, backend: DbBackend) -> [Expr; COLUMNS.len()] {
    let properties = serde_json::Value::Object(event.properties.clone()).to_string();
    let properties = match backend {
        DbBackend::Postgres => Expr::val(properties).cast_as("jsonb"),
        _ => Expr::val(properties),
    };
    [
        event.event_id.as_str().into(),
        event.event_name.as_str().into(),
        event.event_version.as_str().into(),
        Expr::val(stamp(backend, event.occurred_at)),
        event.member_id.into(),
        event.anonymous_id.clone().into(),
        event.session_id.clone().into(),
        event.source.name().into(),
        event.request_path.clone().into(),
        event.request_method.clone().into(),
        event.device_id.clone().into(),
        event.platform.clone().into(),
        event.app_version.clone().into(),
        event.locale.clone().into(),
        properties,
    ]
}
