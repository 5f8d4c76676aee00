//! Parked entries: those that wait for a retry, and those that wait behind one on their lane.
//!
//! A row is a copy of its entry, so that parking never holds back retention. Per lane the first row is `retry` (due at
//! `next_at`) or `held` (an operator must decide); the rows behind it are `wait`. Operators only put rows in and take
//! rows out; the line, which knows what a lane is, puts them into order with [`arrange`].

use std::collections::HashSet;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseTransaction, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;

use crate::clock::{db_now, db_now_plus, read_stamp, stamp};
use crate::cursor::{Shard, number};
use crate::error::{Error, Result};
use crate::event::Key;
use crate::outbox::Entry;
use crate::route::{Lane, Lanes, Ordering};
use crate::table::{self, EVENT_COLUMNS, Table, event_exprs, event_values, read_entry, read_time};

/// Rows in one statement.
const ROWS_MAX: usize = 300;

/// Why an entry is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Parking {
    /// It is tried again after this long.
    Retry,
    /// It waits behind another one of its lane.
    Wait,
    /// It is a dead letter that holds its lane until an operator decides.
    Held,
}

impl Parking {
    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Held => "held",
        }
    }
}

/// An entry that waits.
#[derive(Clone, Debug, Serialize)]
pub struct Parked {
    /// What waits.
    #[serde(flatten)]
    pub entry: Entry,
    /// Why.
    pub state: Parking,
    /// How often it was tried.
    pub attempts: u32,
    /// For [`Parking::Retry`]: how long from now until it is due.
    #[serde(skip)]
    pub delay: Duration,
    /// What the last attempt said.
    pub error: Option<String>,
    /// When it failed first.
    #[serde(with = "time::serde::rfc3339::option")]
    pub failed_at: Option<OffsetDateTime>,
}

/// Parks entries. One that is parked already keeps its row.
pub(crate) async fn insert(tx: &DatabaseTransaction, shard: &Shard, origin: &str, parked: &[Parked]) -> Result<()> {
    let backend = tx.get_database_backend();
    let columns = [
        "route",
        "shard",
        "id",
        "created_at",
        "state",
        "attempts",
        "next_at",
        "error",
        "failed_at",
        "origin",
    ];
    for rows in table::batches(parked, ROWS_MAX, |row| row.entry.event.payload.get().len()) {
        let mut insert = Query::insert();
        insert
            .into_table(table::named(tx, Table::Parked))
            .columns(EVENT_COLUMNS.into_iter().chain(columns));
        for row in rows {
            tell(&shard.route, row);
            let next_at = match row.state {
                Parking::Retry => db_now_plus(backend, row.delay),
                Parking::Wait | Parking::Held => Expr::cust("null"),
            };
            insert.values_panic(
                event_values(backend, &row.entry.event)?.into_iter().chain([
                    shard.route.as_str().into(),
                    number(shard).into(),
                    row.entry.id.into(),
                    Expr::val(stamp(backend, row.entry.created_at)),
                    row.state.name().into(),
                    i32::try_from(row.attempts).unwrap_or(i32::MAX).into(),
                    next_at,
                    row.error.clone().into(),
                    row.failed_at
                        .map_or_else(|| Expr::cust("null"), |at| Expr::val(stamp(backend, at))),
                    origin.into(),
                ]),
            );
        }
        insert.on_conflict(OnConflict::columns(["route", "id"]).do_nothing_on(["route"]).to_owned());
        tx.execute(&insert)
            .await
            .map_err(|source| Error::db("park entries", source))?;
    }
    Ok(())
}

/// Which lanes of a shard stand still.
pub(crate) async fn lanes(db: &impl ConnectionTrait, shard: &Shard, ordering: Ordering) -> Result<Lanes> {
    // Where each entry is its own lane, no later one can meet it.
    if ordering == Ordering::None {
        return Ok(Lanes::new());
    }
    let mut select = Query::select();
    select
        .distinct()
        .columns(["aggregate_type", "aggregate_id"])
        .from(table::named(db, Table::Parked))
        .and_where(of(shard));
    if ordering == Ordering::Strict {
        select.limit(1);
    }
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read which keys are parked", source))?;
    rows.iter()
        .map(|row| match ordering {
            Ordering::Strict => Ok(Lane::Line),
            _ => Ok(Lane::Key(read_key(row)?)),
        })
        .collect()
}

/// Which lanes of these entries stand still.
pub(crate) async fn lanes_of(
    db: &impl ConnectionTrait,
    shard: &Shard,
    ordering: Ordering,
    entries: &[&Entry],
) -> Result<Lanes> {
    if ordering != Ordering::Key {
        return lanes(db, shard, ordering).await;
    }
    let keys: HashSet<Key> = entries.iter().map(|entry| entry.event.key()).collect();
    let mut select = Query::select();
    select
        .distinct()
        .columns(["aggregate_type", "aggregate_id"])
        .from(table::named(db, Table::Parked))
        .and_where(of(shard))
        .and_where(among(keys));
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read which keys are parked", source))?;
    rows.iter().map(|row| Ok(Lane::Key(read_key(row)?))).collect()
}

/// How many rows a shard has parked.
pub(crate) async fn count(tx: &DatabaseTransaction, shard: &Shard) -> Result<u64> {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "parked")
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("count parked entries", source))?;
    let parked: i64 = row.map_or(Ok(0), |row| row.try_get("", "parked"))?;
    Ok(u64::try_from(parked).unwrap_or(0))
}

/// How long until the next retry of a shard is due; zero when one is due now.
pub(crate) async fn due_in(tx: &DatabaseTransaction, shard: &Shard) -> Result<Option<Duration>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .column("next_at")
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard))
        .and_where(Expr::col("state").eq(Parking::Retry.name()))
        .order_by("next_at", Order::Asc)
        .limit(1);
    let Some(row) = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read when a retry is due", source))?
    else {
        return Ok(None);
    };
    let (next_at, now) = (read_time(&row, backend, "next_at")?, read_time(&row, backend, "now")?);
    Ok(Some(Duration::try_from(next_at - now).unwrap_or_default()))
}

/// Entries that are due, each followed by what waits behind it, in order; at most about `limit`.
pub(crate) async fn due(
    tx: &DatabaseTransaction,
    shard: &Shard,
    ordering: Ordering,
    limit: u64,
) -> Result<Vec<Parked>> {
    let backend = tx.get_database_backend();
    // One line goes by number; keys among each other go by who has waited longest.
    let first = if ordering == Ordering::Strict { "id" } else { "next_at" };
    let mut heads = Query::select();
    rows_of(&mut heads, tx, shard)
        .and_where(Expr::col("state").eq(Parking::Retry.name()))
        .and_where(Expr::col("next_at").lte(db_now(backend)))
        .order_by(first, Order::Asc)
        .limit(limit);
    let heads = read_rows(tx, &heads).await?;
    if ordering != Ordering::Key || heads.is_empty() {
        return Ok(heads);
    }
    let keys: HashSet<Key> = heads.iter().map(|head| head.entry.event.key()).collect();
    let mut select = Query::select();
    rows_of(&mut select, tx, shard)
        .and_where(among(keys))
        .order_by("id", Order::Asc)
        .limit(limit);
    let mut held = HashSet::new();
    let mut rows = read_rows(tx, &select).await?;
    // A retried dead letter may stand in front of one that holds the key: what is held, and behind it, stays.
    rows.retain(|row| {
        if row.state == Parking::Held {
            held.insert(row.entry.event.key());
        }
        !held.contains(&row.entry.event.key())
    });
    Ok(rows)
}

/// Removes rows that were delivered or given up.
pub(crate) async fn remove(tx: &DatabaseTransaction, route: &str, ids: &[i64]) -> Result<()> {
    for ids in ids.chunks(ROWS_MAX) {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(route))
            .and_where(Expr::col("id").is_in(ids.iter().copied()));
        tx.execute(&delete)
            .await
            .map_err(|source| Error::db("remove parked entries", source))?;
    }
    Ok(())
}

/// Writes down another failed attempt, or that the entry now holds its lane.
pub(crate) async fn update(tx: &DatabaseTransaction, route: &str, row: &Parked) -> Result<()> {
    tell(route, row);
    let backend = tx.get_database_backend();
    let next_at = match row.state {
        Parking::Retry => db_now_plus(backend, row.delay),
        Parking::Wait | Parking::Held => Expr::cust("null"),
    };
    let failed_at = row
        .failed_at
        .map_or_else(|| Expr::cust("null"), |at| Expr::val(stamp(backend, at)));
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Parked))
        .value("state", row.state.name())
        .value("attempts", i32::try_from(row.attempts).unwrap_or(i32::MAX))
        .value("next_at", next_at)
        .value("error", row.error.clone())
        .value("failed_at", failed_at)
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("id").eq(row.entry.id));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("update a parked entry", source))?;
    Ok(())
}

/// Says of an entry that has failed when it is tried again.
fn tell(route: &str, row: &Parked) {
    if row.state == Parking::Retry {
        let after_ms = u64::try_from(row.delay.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            route, event = %row.entry.event.id, r#type = %row.entry.event.event_type, attempts = row.attempts,
            after_ms, error = row.error, "entry failed and is tried again"
        );
    }
}

/// Puts the rows of these keys (or of the whole shard) into order: the first of a lane is due unless it is held, the others
/// wait. Answers those of the keys that have no row any more.
pub(crate) async fn arrange(
    tx: &DatabaseTransaction,
    shard: &Shard,
    ordering: Ordering,
    keys: Option<HashSet<Key>>,
) -> Result<HashSet<Key>> {
    if keys.as_ref().is_some_and(HashSet::is_empty) {
        return Ok(HashSet::new());
    }
    let (firsts, kept) = firsts(tx, shard, ordering, keys.as_ref()).await?;
    let within = |wanted: Option<&HashSet<Key>>| match (ordering, wanted) {
        (Ordering::Key, Some(keys)) => of(shard).and(among(keys.clone())),
        _ => of(shard),
    };
    if ordering != Ordering::None {
        let mut wait = Query::update();
        wait.table(table::named(tx, Table::Parked))
            .value("state", Parking::Wait.name())
            .value("next_at", Expr::cust("null"))
            .and_where(within(keys.as_ref()))
            .and_where(Expr::col("state").eq(Parking::Retry.name()))
            .and_where(Expr::col("id").is_not_in(firsts.iter().copied()));
        tx.execute(&wait)
            .await
            .map_err(|source| Error::db("let parked entries wait", source))?;
    }
    let mut due = Query::update();
    due.table(table::named(tx, Table::Parked))
        .value("state", Parking::Retry.name())
        .value("next_at", db_now(tx.get_database_backend()))
        .and_where(of(shard))
        .and_where(Expr::col("state").eq(Parking::Wait.name()));
    if ordering != Ordering::None {
        due.and_where(Expr::col("id").is_in(firsts));
    }
    tx.execute(&due)
        .await
        .map_err(|source| Error::db("make parked entries due", source))?;
    Ok(keys
        .unwrap_or_default()
        .into_iter()
        .filter(|key| !kept.contains(key))
        .collect())
}

/// The first row of each lane, and which keys have rows.
async fn firsts(
    tx: &DatabaseTransaction,
    shard: &Shard,
    ordering: Ordering,
    keys: Option<&HashSet<Key>>,
) -> Result<(Vec<i64>, HashSet<Key>)> {
    let mut select = Query::select();
    select
        .columns(["aggregate_type", "aggregate_id"])
        .expr_as(Expr::col("id").min(), "first")
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard))
        .group_by_columns(["aggregate_type", "aggregate_id"]);
    if let (Ordering::Key, Some(keys)) = (ordering, keys) {
        select.and_where(among(keys.clone()));
    }
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("find the first of each lane", source))?;
    let mut kept = HashSet::with_capacity(rows.len());
    let mut firsts = Vec::with_capacity(rows.len());
    for row in &rows {
        kept.insert(read_key(row)?);
        firsts.push(row.try_get::<i64>("", "first")?);
    }
    if ordering == Ordering::Strict {
        firsts = firsts.into_iter().min().into_iter().collect();
    }
    Ok((firsts, kept))
}

fn read_key(row: &QueryResult) -> Result<Key> {
    Ok(Key {
        aggregate_type: row.try_get("", "aggregate_type")?,
        aggregate_id: row.try_get("", "aggregate_id")?,
    })
}

fn of(shard: &Shard) -> Expr {
    Expr::col("route")
        .eq(shard.route.as_str())
        .and(Expr::col("shard").eq(number(shard)))
}

fn among(keys: HashSet<Key>) -> Expr {
    Expr::tuple([Expr::col("aggregate_type"), Expr::col("aggregate_id")])
        .in_tuples(keys.into_iter().map(|key| (key.aggregate_type, key.aggregate_id)))
}

fn rows_of<'a>(select: &'a mut SelectStatement, tx: &DatabaseTransaction, shard: &Shard) -> &'a mut SelectStatement {
    for (expr, column) in event_exprs(tx.get_database_backend()) {
        select.expr_as(expr, column);
    }
    select
        .columns(["id", "created_at", "state", "attempts", "error", "failed_at"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard))
}

async fn read_rows(tx: &DatabaseTransaction, select: &SelectStatement) -> Result<Vec<Parked>> {
    let rows = tx
        .query_all(select)
        .await
        .map_err(|source| Error::db("read parked entries", source))?;
    rows.iter().map(|row| read_row(tx, row)).collect()
}

fn read_row(tx: &DatabaseTransaction, row: &QueryResult) -> Result<Parked> {
    let backend = tx.get_database_backend();
    let state: String = row.try_get("", "state")?;
    Ok(Parked {
        entry: read_entry(row, backend, "id")?,
        state: match state.as_str() {
            "retry" => Parking::Retry,
            "held" => Parking::Held,
            _ => Parking::Wait,
        },
        attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).unwrap_or(0),
        delay: Duration::ZERO,
        error: row.try_get("", "error")?,
        failed_at: read_stamp(row, backend, "failed_at")?,
    })
}
