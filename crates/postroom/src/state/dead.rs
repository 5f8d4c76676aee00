//! Dead letters: entries that were given up, one row each.

use std::fmt;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use serde::Serialize;
use time::OffsetDateTime;

use crate::error::{Error, ErrorKind, Result};
use crate::state::cursor::{Shard, number};
use crate::state::parked::Parked;
use crate::state::renumber;
use crate::store::db_clock::{db_now, db_now_minus, stamp};
use crate::store::table::{self, EVENT_COLUMNS, Table, event_values};
use crate::store::tx::Tx;

/// The state of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterState {
    /// It waits for a decision.
    Dead,
    /// An operator put it back in front of its key.
    Retried,
    /// An operator let its key go on without it.
    Discarded,
}

impl LetterState {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "dead" => Ok(Self::Dead),
            "retried" => Ok(Self::Retried),
            "discarded" => Ok(Self::Discarded),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!("a dead letter is in the state {name:?}, which this version does not know"),
            )),
        }
    }
}

impl fmt::Display for LetterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Keeps what was given up. One that died before is dead again.
pub(crate) async fn insert(tx: &Tx, shard: &Shard, dead: &[Parked]) -> Result<()> {
    renumber::make_room(tx, &shard.route, dead).await?;
    let backend = tx.get_database_backend();
    for row in dead {
        let mut insert = Query::insert();
        let columns = ["route", "shard", "id", "created_at", "attempts", "error", "failed_at"];
        insert
            .into_table(table::named(tx, Table::Failed))
            .columns(EVENT_COLUMNS.into_iter().chain(columns))
            .values_panic(
                event_values(backend, &row.stored_event())?.into_iter().chain([
                    shard.route.as_str().into(),
                    number(shard).into(),
                    row.entry.id.into(),
                    Expr::val(stamp(backend, row.entry.created_at)),
                    i32::try_from(row.attempts).unwrap_or(i32::MAX).into(),
                    row.error.clone().unwrap_or_default().into(),
                    row.failed_at
                        .map_or_else(|| Expr::cust("null"), |at| Expr::val(stamp(backend, at))),
                ]),
            )
            .on_conflict(
                OnConflict::columns(["route", "id"])
                    .update_columns(["attempts", "error"])
                    .value("state", LetterState::Dead.name())
                    .value("reason", Expr::cust("null"))
                    .value("decided_at", Expr::cust("null"))
                    .value("decided_by", Expr::cust("null"))
                    .value("dead_at", db_now(backend))
                    .to_owned(),
            );
        tx.execute(&insert)
            .await
            .map_err(|source| Error::db("keep a dead letter", source))?;
        tracing::warn!(
            route = %shard.route, event = %row.entry.event.id, r#type = %row.entry.event.event_type,
            attempts = row.attempts, error = row.error, "entry became a dead letter"
        );
    }
    Ok(())
}

/// Removes letters that were decided on longer ago than `keep`, at most `batch`; answers how many. Like the inbox, they tell a route
/// that reads the log again what it has done with the entries since `oldest_open`.
pub(crate) async fn prune(
    db: &DatabaseConnection,
    (keep, oldest_open): (Duration, Option<OffsetDateTime>),
    batch: u64,
) -> Result<u64> {
    let tx = table::begin_own(db).await?;
    let backend = tx.get_database_backend();
    // One that waits for a decision, if only again, has no such time.
    let mut is_old = Expr::col("decided_at").lt(db_now_minus(backend, keep));
    if let Some(created_at) = oldest_open {
        is_old = is_old.and(Expr::col("decided_at").lt(stamp(backend, created_at)));
    }
    let mut select = Query::select();
    select
        .column("dead_id")
        .from(table::named(&tx, Table::Failed))
        .and_where(is_old.clone())
        .limit(batch);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("find old dead letters", source))?;
    let dead_ids: Vec<i64> = rows
        .iter()
        .map(|row| row.try_get("", "dead_id"))
        .collect::<Result<_, _>>()?;
    if !dead_ids.is_empty() {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(&tx, Table::Failed))
            .and_where(is_old)
            .and_where(Expr::col("dead_id").is_in(dead_ids.iter().copied()));
        tx.execute(&delete)
            .await
            .map_err(|source| Error::db("remove old dead letters", source))?;
    }
    tx.commit().await?;
    Ok(dead_ids.len() as u64)
}
