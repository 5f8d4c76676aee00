//! Writes events that are not stored yet, in one statement for many.

use std::collections::HashSet;

use postroom::db_clock::stamp;
use postroom::{Error, ErrorKind, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait as _, InsertStatement, OnConflict, Query};
use sea_orm::{ConnectionTrait as _, DbBackend, QueryResult};

use super::{COLUMNS, TABLE};
use crate::event::ActivityEvent;
use crate::privacy::Admitted;

/// Rows in one statement: SQLite takes 32,766 values, PostgreSQL and MySQL 65,535.
const ROWS_MAX: usize = 1_000;
/// How often an insert on MySQL is repeated that has met events of others.
const RERUNS: u32 = 10;

/// Stores those of the events whose id is not stored yet; returns the ids of the new rows. Of several events with the same id, the
/// first one is stored.
pub(crate) async fn insert_new(tx: &Tx, events: &[Admitted]) -> Result<HashSet<String>> {
    let mut seen = HashSet::new();
    let mut distinct: Vec<&ActivityEvent> = events
        .iter()
        .map(|admitted| &**admitted)
        .filter(|event| seen.insert(event.event_id.as_str()))
        .collect();
    // Two transactions with the same events wait for each other in one order, so they do not deadlock.
    distinct.sort_unstable_by(|one, other| one.event_id.cmp(&other.event_id));
    let mut new = HashSet::new();
    for rows in distinct.chunks(ROWS_MAX) {
        new.extend(match tx.get_database_backend() {
            DbBackend::MySql => insert_mysql(tx, rows).await?,
            backend => insert_returning(tx, rows, backend).await.map_err(failed)?,
        });
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

/// MySQL returns no rows, and counts a row that is there already as affected. A plain insert stores all of its rows or, if one of them
/// is known, none: then it is repeated without the known ones.
async fn insert_mysql(tx: &Tx, rows: &[&ActivityEvent]) -> Result<Vec<String>> {
    let mut rows = rows.to_vec();
    for _ in 0..RERUNS {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let inserted = tx.execute(&insert(&rows, DbBackend::MySql)).await;
        match inserted.map_err(failed) {
            Ok(_) => return Ok(rows.iter().map(|event| event.event_id.clone()).collect()),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
        let known: HashSet<String> = known_ids(tx, &rows).await.map_err(failed)?.into_iter().collect();
        rows.retain(|event| !known.contains(&event.event_id));
    }
    let says = "others store the same activity events all the while; try again";
    Err(Error::new(ErrorKind::Unavailable, says))
}

async fn known_ids(tx: &Tx, rows: &[&ActivityEvent]) -> Result<Vec<String>, sea_orm::DbErr> {
    let mut select = Query::select();
    select
        .column("event_id")
        .from(TABLE)
        .and_where(Expr::col("event_id").is_in(rows.iter().map(|event| event.event_id.as_str())));
    ids(&tx.query_all(&select).await?)
}

fn failed(source: sea_orm::DbErr) -> Error {
    Error::db("store activity events", source)
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

pub(super) fn values(event: &ActivityEvent, backend: DbBackend) -> [Expr; COLUMNS.len()] {
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
