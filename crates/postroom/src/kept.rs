//! What a route keeps already: a broker may bring a message again after its failure was written down.

use std::collections::HashSet;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::table::{self, Table, read_uuid, uuid_value};

/// Which of these events the route has parked, or keeps as dead letters that nobody has decided on.
pub(crate) async fn among(tx: &DatabaseTransaction, route: &str, events: &[Uuid]) -> Result<HashSet<Uuid>> {
    let mut kept = HashSet::new();
    for (table, only) in [
        (Table::Parked, None),
        (Table::Failed, Some(Expr::col("state").eq("dead"))),
    ] {
        kept.extend(rows(tx, table, route, events, only).await?);
    }
    Ok(kept)
}

async fn rows(
    tx: &DatabaseTransaction,
    table: Table,
    route: &str,
    events: &[Uuid],
    only: Option<Expr>,
) -> Result<Vec<Uuid>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .column("event_id")
        .from(table::named(tx, table))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("event_id").is_in(events.iter().map(|id| uuid_value(backend, *id))))
        .and_where_option(only);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look what a route keeps", source))?;
    rows.iter().map(|row| read_uuid(row, backend, "event_id")).collect()
}
