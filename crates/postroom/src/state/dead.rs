//! Dead letters: entries that were given up, one row each.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::state::cursor::{Shard, number};
use crate::state::parked::Parked;
use crate::state::renumber;
use crate::store::db_clock::{db_now, db_now_minus, stamp};
use crate::store::table::{self, EVENT_COLUMNS, Table, event_values, read_uuid, uuid_value};
use crate::store::tx::Tx;

/// Decisions that are read at once.
const DECISIONS_MAX: u64 = 1_000;

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

/// An operator's decision on a letter.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Its number in the operators' log.
    pub(crate) number: i64,
    pub(crate) route: String,
    pub(crate) event_id: Uuid,
}

/// The acts by which operators decide on letters.
pub(crate) const RETRY: &str = "dead.retry";
pub(crate) const DISCARD: &str = "dead.discard";

/// The target of such an act, as the operators' log has it.
pub(crate) fn act_target(route: &str, event_id: Uuid) -> String {
    format!("{route}/{event_id}")
}

/// The last number in the operators' log.
pub(crate) async fn last_act(db: &DatabaseConnection) -> Result<i64> {
    let tx = table::look(db).await?;
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("max(audit_id)"), "last")
        .from(table::named(&tx, Table::AdminAudit));
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("read the operators' log", source))?;
    tx.commit().await?;
    let last: Option<i64> = row.map(|row| row.try_get("", "last")).transpose()?.flatten();
    Ok(last.unwrap_or(0))
}

/// Decisions with higher numbers than this one, some at a time. None, when there are no more.
pub(crate) async fn decisions_after(db: &DatabaseConnection, number: i64) -> Result<Vec<Decision>> {
    let tx = table::look(db).await?;
    let mut select = Query::select();
    select
        .columns(["audit_id", "target"])
        .from(table::named(&tx, Table::AdminAudit))
        .and_where(Expr::col("audit_id").gt(number))
        .and_where(Expr::col("action").is_in([RETRY, DISCARD]))
        .order_by("audit_id", Order::Asc)
        .limit(DECISIONS_MAX);
    let rows = tx.query_all(&select).await;
    let rows = rows.map_err(|source| Error::db("read decisions on dead letters", source))?;
    tx.commit().await?;
    let decision = |row: &QueryResult| {
        let target: String = row.try_get("", "target")?;
        let (route, event_id) = target.rsplit_once('/').unwrap_or_default();
        Ok(Decision {
            number: row.try_get("", "audit_id")?,
            route: route.to_owned(),
            event_id: event_id.parse().unwrap_or_default(),
        })
    };
    rows.iter().map(decision).collect()
}

/// The states of a route's letters of these events. A letter that waits for a decision counts before a decided one of the same event.
pub(crate) async fn states(
    db: &DatabaseConnection,
    route: &str,
    events: &[Uuid],
) -> Result<HashMap<Uuid, LetterState>> {
    let mut states = HashMap::new();
    if events.is_empty() {
        return Ok(states);
    }
    let tx = table::look(db).await?;
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns(["event_id", "state"])
        .from(table::named(&tx, Table::Failed))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("event_id").is_in(events.iter().map(|id| uuid_value(backend, *id))));
    let rows = tx.query_all(&select).await;
    let rows = rows.map_err(|source| Error::db("read the states of dead letters", source))?;
    tx.commit().await?;
    for row in &rows {
        let (event, state) = (
            read_uuid(row, backend, "event_id")?,
            row.try_get::<String>("", "state")?,
        );
        let state = LetterState::named(&state)?;
        if state == LetterState::Dead || !states.contains_key(&event) {
            states.insert(event, state);
        }
    }
    Ok(states)
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
