//! Numbers that are used twice. A log that is numbered anew (a sequence that was reset, a table that was rebuilt) gives its new
//! entries the numbers of old ones that a route may still keep, parked or as dead letters. Such an old row gets another number, below
//! all others, so that it neither hides the new entry nor is overtaken by it.

use std::collections::HashMap;

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::state::parked::Parked;
use crate::store::table::{self, Table, read_uuid, uuid_value};
use crate::store::tx::Tx;

/// How far below an old row goes: below every number of the log and of brokers, and still exact as a number of JSON.
pub(crate) const STEP: i64 = 1 << 53;
/// How often a log can be numbered anew before somebody has to look.
const STEPS_MAX: i64 = 500;
/// The tables that keep entries by their number. A dead letter that holds its key has the same number in both.
const TABLES: [Table; 2] = [Table::Parked, Table::Failed];
/// Rows looked up in one statement.
const ROWS_MAX: usize = 300;

/// Gives the numbers of these entries free where a row of another event has them.
pub(crate) async fn make_room(tx: &Tx, route: &str, rows: &[Parked]) -> Result<()> {
    for rows in rows.chunks(ROWS_MAX) {
        for table in TABLES {
            for (id, event) in holders(tx, table, route, rows).await? {
                let is_another = |row: &&Parked| row.entry.id == id && row.entry.event.id != event;
                if rows.iter().any(|row| is_another(&row)) {
                    step_aside(tx, route, id, event).await?;
                }
            }
        }
    }
    Ok(())
}

/// Gives dead letters that are to be parked again another number where a newer event is parked under theirs.
pub(crate) async fn give_way(tx: &Tx, route: &str, rows: &mut [Parked]) -> Result<()> {
    for rows in rows.chunks_mut(ROWS_MAX) {
        let holders: HashMap<i64, Uuid> = holders(tx, Table::Parked, route, rows).await?.into_iter().collect();
        for row in rows {
            let (id, event) = row.identity();
            if holders.get(&id).is_some_and(|holder| *holder != event) {
                row.entry.id = step_aside(tx, route, id, event).await?;
            }
        }
    }
    Ok(())
}

/// The events that have the numbers of these entries.
async fn holders(tx: &Tx, table: Table, route: &str, rows: &[Parked]) -> Result<Vec<(i64, Uuid)>> {
    let mut select = Query::select();
    select
        .columns(["id", "event_id"])
        .from(table::named(tx, table))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("id").is_in(rows.iter().map(|row| row.entry.id)));
    let found = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look which numbers are taken", source))?;
    let backend = tx.get_database_backend();
    found
        .iter()
        .map(|row| Ok((row.try_get("", "id")?, read_uuid(row, backend, "event_id")?)))
        .collect()
}

/// Moves the rows of one event to a number that nothing has; answers it.
async fn step_aside(tx: &Tx, route: &str, id: i64, event: Uuid) -> Result<i64> {
    let mut free = id;
    loop {
        free = match free.checked_sub(STEP) {
            Some(free) if (id - free) / STEP <= STEPS_MAX => free,
            _ => {
                let says =
                    format!("route {route:?} keeps too many old entries with the number {id}; retry or discard them");
                return Err(Error::new(ErrorKind::Failed, says));
            }
        };
        if !is_taken(tx, route, free).await? {
            break;
        }
    }
    tracing::warn!(route, id, free, event = %event, "the outbox was numbered anew: a kept entry of an old number gets another one");
    for table in TABLES {
        let mut update = Query::update();
        update
            .table(table::named(tx, table))
            .value("id", free)
            .and_where(Expr::col("route").eq(route))
            .and_where(Expr::col("id").eq(id))
            .and_where(Expr::col("event_id").eq(uuid_value(tx.get_database_backend(), event)));
        tx.execute(&update)
            .await
            .map_err(|source| Error::db("give an old entry another number", source))?;
    }
    Ok(free)
}

async fn is_taken(tx: &Tx, route: &str, id: i64) -> Result<bool> {
    for table in TABLES {
        let mut select = Query::select();
        select
            .column("id")
            .from(table::named(tx, table))
            .and_where(Expr::col("route").eq(route))
            .and_where(Expr::col("id").eq(id));
        let found = tx
            .query_one(&select)
            .await
            .map_err(|source| Error::db("look for a free number", source))?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
