//! Failures that a route keeps already: a broker may bring a message again after its failure was written.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::state::dead::LetterState;
use crate::state::parked;
use crate::store::table::{self, Table, read_uuid, uuid_value};
use crate::store::tx::Tx;

/// Which of these events the route has parked or given up.
pub(crate) async fn among(tx: &Tx, route: &str, events: &[Uuid]) -> Result<HashSet<Uuid>> {
    let mut kept = rows(tx, Table::Parked, &[route], events, None).await?;
    kept.extend(given_up(tx, route, events).await?);
    Ok(kept)
}

/// Which of these events are dead letters of the route, discarded ones too. One that an operator has retried is parked or handled.
pub(crate) async fn given_up(tx: &impl ConnectionTrait, route: &str, events: &[Uuid]) -> Result<HashSet<Uuid>> {
    rows(
        tx,
        Table::Failed,
        &[route],
        events,
        Some(Expr::col("state").ne(LetterState::Retried.name())),
    )
    .await
}

/// Which of these events the route has parked or given up, or does not get because a route that publishes to it has given them up.
/// A letter that such a route retries is on its way again. A row that a replay has parked may be taken back.
pub(crate) async fn accounted_for(
    tx: &Tx,
    route: &str,
    publishers: &[String],
    events: &[Uuid],
) -> Result<HashSet<Uuid>> {
    let publishers: Vec<&str> = publishers.iter().map(String::as_str).collect();
    let is_its_own = Some(parked::is_replayed().not());
    let is_given_up = Some(Expr::col("state").ne(LetterState::Retried.name()));
    let mut found = rows(tx, Table::Parked, &[route], events, is_its_own).await?;
    found.extend(rows(tx, Table::Failed, &[route], events, None).await?);
    if !publishers.is_empty() {
        found.extend(rows(tx, Table::Failed, &publishers, events, is_given_up).await?);
    }
    Ok(found)
}

async fn rows(
    db: &impl ConnectionTrait,
    table: Table,
    routes: &[&str],
    events: &[Uuid],
    only: Option<Expr>,
) -> Result<HashSet<Uuid>> {
    if events.is_empty() {
        return Ok(HashSet::new());
    }
    let backend = db.get_database_backend();
    let mut select = Query::select();
    select
        .column("event_id")
        .from(table::named(db, table))
        .and_where(Expr::col("route").is_in(routes.iter().copied()))
        .and_where(Expr::col("event_id").is_in(events.iter().map(|id| uuid_value(backend, *id))))
        .and_where_option(only);
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look what a route keeps", source))?;
    rows.iter().map(|row| read_uuid(row, backend, "event_id")).collect()
}
