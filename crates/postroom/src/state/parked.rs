//! Parked entries: those that wait for a retry, and those that wait behind one on their lane.
//!
//! A row is a copy of its entry, so that parking never holds back retention. Per lane the first row is `retry` (due at
//! `next_at`) or `held` (an operator must decide); the rows behind it are `wait`. Operators only put rows in and take
//! rows out; the worker, which knows what a lane is, puts them into order with [`arrange`].

mod arrange;
mod origin;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, Func, OnConflict, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::broker::Origin;
use crate::error::{Error, Result};
use crate::event::Key;
use crate::event::entry::Entry;
use crate::policy::ordering::{Lane, Lanes, Ordering};
use crate::state::cursor::{Shard, number};
use crate::state::renumber;
use crate::store::bounded::{self, Bounded};
use crate::store::db_clock::{db_now, db_now_plus, read_stamp, stamp};
use crate::store::table::{self, EVENT_COLUMNS, Table, event_values, read_entry, read_time, uuid_value};
use crate::store::tx::Tx;

use self::origin::REPLAY;
pub(crate) use arrange::{arrange, arrange_all};
pub(crate) use origin::{ParkedBy, number_of_message, remove_came_from, take_came_from};

/// Rows in one statement.
const ROWS_MAX: usize = 300;
/// A shard that has parked this many entries reads no further until some are gone: memory and tables stay bounded when a
/// destination refuses everything. Rows that operators retry or replay do not count.
pub(crate) const PARKED_MAX: u64 = 10_000;
/// Rows that are made due at once, when a shard is put into order.
pub(crate) const DUE_MAX: usize = 2_000;

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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Held => "held",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "retry" => Self::Retry,
            "held" => Self::Held,
            _ => Self::Wait,
        }
    }
}

/// An entry that waits.
#[derive(Clone, Debug, Serialize)]
pub struct Parked {
    /// The entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// Why.
    pub state: Parking,
    /// How often it was tried.
    pub attempts: u32,
    /// For [`Parking::Retry`]: how long from now until it is due.
    #[serde(skip)]
    pub delay: Duration,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// When it failed first.
    #[serde(with = "time::serde::rfc3339::option")]
    pub failed_at: Option<OffsetDateTime>,
    /// For a message of a broker: its place there.
    #[serde(skip)]
    pub(crate) came_from: Option<Origin>,
}

impl Parked {
    /// An entry that was not tried yet.
    pub(crate) fn untried(entry: Entry, state: Parking) -> Self {
        Self {
            entry,
            state,
            attempts: 0,
            delay: Duration::ZERO,
            error: None,
            failed_at: None,
            came_from: None,
        }
    }

    /// The identity of its row.
    pub(crate) fn identity(&self) -> (i64, Uuid) {
        (self.entry.id, self.entry.event.id)
    }
}

/// The same for a statement. Such rows do not count against [`PARKED_MAX`].
fn is_requested() -> Expr {
    Expr::col("origin").eq(ParkedBy::Retry.name()).or(is_replayed())
}

/// Whether a replay has parked the row.
pub(crate) fn is_replayed() -> Expr {
    Expr::col("origin").like(format!("{REPLAY}%"))
}

/// Removes what a replay has parked and nobody has tried yet; answers how many rows.
pub(crate) async fn remove_replayed(tx: &Tx, route: &str, replay_id: i64) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Parked))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("origin").eq(ParkedBy::Replay(replay_id).name()))
        .and_where(Expr::col("attempts").eq(0));
    let removed = tx
        .execute(&delete)
        .await
        .map_err(|source| Error::db("take back what a replay has parked", source))?;
    Ok(removed.rows_affected())
}

/// Parks entries. One that is parked already keeps its row; one of another event with the same number makes room.
pub(crate) async fn insert(tx: &Tx, shard: &Shard, by: ParkedBy, parked: &[Parked]) -> Result<()> {
    renumber::make_room(tx, &shard.route, parked).await?;
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
                event_values(backend, &row.stored_event())?.into_iter().chain([
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
                    by.name().into(),
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
            Ordering::Strict => Ok(Lane::Single),
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
        .and_where(among(db.get_database_backend(), keys));
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read which keys are parked", source))?;
    rows.iter().map(|row| Ok(Lane::Key(read_key(row)?))).collect()
}

/// How many rows a shard has parked.
pub(crate) async fn count(tx: &Tx, shard: &Shard) -> Result<u64> {
    count_where(tx, of(shard)).await
}

/// How many rows a shard has parked by itself: what an operator has retried or replayed counts against no bound of its.
pub(crate) async fn count_failed(tx: &Tx, shard: &Shard) -> Result<u64> {
    count_where(tx, of(shard).and(is_requested().not())).await
}

async fn count_where(tx: &Tx, these: Expr) -> Result<u64> {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "parked")
        .from(table::named(tx, Table::Parked))
        .and_where(these);
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("count parked entries", source))?;
    let parked: i64 = row.map_or(Ok(0), |row| row.try_get("", "parked"))?;
    Ok(u64::try_from(parked).unwrap_or(0))
}

/// How long until the next retry of a shard is due; zero when one is due now.
pub(crate) async fn due_in(tx: &Tx, shard: &Shard) -> Result<Option<Duration>> {
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

/// About how many bytes of entries are tried again together: each route has so much in memory, several times while it is written.
const DUE_BYTES: usize = 1 << 20;

/// Entries that are due, each followed by what waits behind it, in order; at most about `limit`, and about [`DUE_BYTES`].
pub(crate) async fn due(tx: &Tx, shard: &Shard, ordering: Ordering, limit: u64) -> Result<Bounded<Parked>> {
    // A strict route goes by number. Keys go by how long they have waited.
    let first = if ordering == Ordering::Strict { "id" } else { "next_at" };
    let is_due = Expr::col("state")
        .eq(Parking::Retry.name())
        .and(Expr::col("next_at").lte(db_now(tx.get_database_backend())));
    let mut heads = Query::select();
    heads
        .columns(["id", "aggregate_type", "aggregate_id"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard).and(is_due))
        .order_by(first, Order::Asc)
        .limit(limit);
    let heads = query(tx, &heads, "read what is due").await?;
    let mut ids = ids_of(&heads)?;
    if ordering != Ordering::Key || heads.is_empty() {
        return read_rows(tx, shard, &ids).await;
    }
    let keys: HashSet<Key> = heads.iter().map(read_key).collect::<Result<_>>()?;
    // An operator may have changed a lane that is not in order yet: then its first row is not the one that is due, and it waits.
    let firsts = first_rows(tx, shard, keys).await?;
    ids.retain(|id| firsts.contains_key(id));
    let keys: HashSet<Key> = ids.iter().filter_map(|id| firsts.get(id).cloned()).collect();
    if keys.is_empty() {
        return read_rows(tx, shard, &ids).await;
    }
    let mut lanes = Query::select();
    lanes
        .column("id")
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard).and(among(tx.get_database_backend(), keys)))
        .order_by("id", Order::Asc)
        .limit(limit);
    let lanes = query(tx, &lanes, "read what waits behind it").await?;
    // If not all of them fit, those that have waited longest are among those that do.
    ids.extend(ids_of(&lanes)?.into_iter().filter(|id| !firsts.contains_key(id)));
    ids.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut due = read_rows(tx, shard, &ids).await?;
    let mut held = HashSet::new();
    // A retried dead letter may stand in front of one that holds the key: what is held, and behind it, stays.
    due.rows.retain(|row| {
        if row.state == Parking::Held {
            held.insert(row.entry.event.key());
        }
        !held.contains(&row.entry.event.key())
    });
    Ok(due)
}

/// The first row of each of these lanes.
async fn first_rows(tx: &Tx, shard: &Shard, keys: HashSet<Key>) -> Result<HashMap<i64, Key>> {
    let mut select = Query::select();
    select
        .columns(["aggregate_type", "aggregate_id"])
        .expr_as(Expr::cust("min(id)"), "id")
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard).and(among(tx.get_database_backend(), keys)))
        .group_by_columns(["aggregate_type", "aggregate_id"]);
    let rows = query(tx, &select, "read the first rows of lanes").await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "id")?, read_key(row)?)))
        .collect()
}

async fn query(tx: &Tx, select: &SelectStatement, doing: &'static str) -> Result<Vec<QueryResult>> {
    tx.query_all(select).await.map_err(|source| Error::db(doing, source))
}

fn ids_of(rows: &[QueryResult]) -> Result<Vec<i64>> {
    rows.iter().map(|row| Ok(row.try_get("", "id")?)).collect()
}

/// Which of these rows a replay has parked.
pub(crate) async fn replayed(tx: &Tx, route: &str, ids: &[i64]) -> Result<HashSet<i64>> {
    let mut replayed = HashSet::new();
    for ids in ids.chunks(ROWS_MAX) {
        let mut select = Query::select();
        select
            .column("id")
            .from(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(route))
            .and_where(is_replayed())
            .and_where(one_of(ids));
        let rows = tx
            .query_all(&select)
            .await
            .map_err(|source| Error::db("look where parked entries come from", source))?;
        for row in &rows {
            replayed.insert(row.try_get("", "id")?);
        }
    }
    Ok(replayed)
}

/// Removes rows that were delivered or given up, each by its number and its event: the number alone may be that of a newer one.
pub(crate) async fn remove(tx: &Tx, route: &str, rows: &[(i64, Uuid)]) -> Result<()> {
    let backend = tx.get_database_backend();
    for rows in rows.chunks(ROWS_MAX) {
        let (ids, events): (Vec<i64>, Vec<Uuid>) = rows.iter().copied().unzip();
        let mut delete = Query::delete();
        delete
            .from_table(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(route))
            .and_where(one_of(&ids))
            .and_where(Expr::col("event_id").is_in(events.iter().map(|event| uuid_value(backend, *event))));
        tx.execute(&delete)
            .await
            .map_err(|source| Error::db("remove parked entries", source))?;
    }
    Ok(())
}

/// Writes down another failed attempt of each, or that the entry now holds its lane. Many that fail alike are one statement.
pub(crate) async fn update(tx: &Tx, route: &str, rows: &[Parked]) -> Result<()> {
    let mut alike: HashMap<(&str, u32, Duration, Option<&str>), Vec<&Parked>> = HashMap::new();
    for row in rows {
        tell(route, row);
        let outcome = (row.state.name(), row.attempts, row.delay, row.error.as_deref());
        alike.entry(outcome).or_default().push(row);
    }
    for rows in alike.values().flat_map(|rows| rows.chunks(ROWS_MAX)) {
        update_alike(tx, route, rows).await?;
    }
    Ok(())
}

/// Writes the same outcome into these rows.
async fn update_alike(tx: &Tx, route: &str, rows: &[&Parked]) -> Result<()> {
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let backend = tx.get_database_backend();
    let next_at = match row.state {
        Parking::Retry => db_now_plus(backend, row.delay),
        Parking::Wait | Parking::Held => Expr::cust("null"),
    };
    let (ids, events): (Vec<i64>, Vec<Uuid>) = rows.iter().map(|row| row.identity()).unzip();
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Parked))
        .value("state", row.state.name())
        .value("attempts", i32::try_from(row.attempts).unwrap_or(i32::MAX))
        .value("next_at", next_at)
        .value("error", row.error.clone())
        .and_where(Expr::col("route").eq(route))
        .and_where(one_of(&ids))
        .and_where(Expr::col("event_id").is_in(events.iter().map(|event| uuid_value(backend, *event))));
    if let Some(failed_at) = rows.iter().filter_map(|row| row.failed_at).max() {
        let failed_at = Expr::val(stamp(backend, failed_at)); // of those that fail for the first time
        update.value("failed_at", Func::coalesce([Expr::col("failed_at"), failed_at]));
    }
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("update parked entries", source))?;
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

/// One of these numbers. Their borders are said too: PostgreSQL, without statistics of a table that grew just now, would rather
/// read the whole route than look each of them up.
fn one_of(ids: &[i64]) -> Expr {
    let (first, last) = (ids.iter().min().copied(), ids.iter().max().copied());
    Expr::col("id")
        .is_in(ids.iter().copied())
        .and(Expr::col("id").gte(first))
        .and(Expr::col("id").lte(last))
}

/// One of these keys. PostgreSQL, without statistics of a table that grew just now, compares each row of the route with each key of a
/// list: seconds for some thousand rows. It joins what comes from a function.
fn among(backend: DbBackend, keys: HashSet<Key>) -> Expr {
    let pairs = keys.into_iter().map(|key| (key.aggregate_type, key.aggregate_id));
    if backend == DbBackend::Postgres {
        let pairs = serde_json::json!(pairs.collect::<Vec<_>>()).to_string();
        return Expr::cust_with_values(
            "(aggregate_type, aggregate_id) in (select k ->> 0, k ->> 1 from json_array_elements(cast($1 as json)) k)",
            [pairs],
        );
    }
    Expr::tuple([Expr::col("aggregate_type"), Expr::col("aggregate_id")]).in_tuples(pairs)
}

fn rows_of(tx: &Tx, shard: &Shard) -> SelectStatement {
    let mut select = table::select_events(tx.get_database_backend());
    select
        .columns(["id", "created_at", "state", "attempts", "error", "failed_at"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard));
    select
}

/// Reads the rows with these numbers, about [`DUE_BYTES`] of them.
async fn read_rows(tx: &Tx, shard: &Shard, ids: &[i64]) -> Result<Bounded<Parked>> {
    let backend = tx.get_database_backend();
    let select = |ids: &[i64]| {
        let mut select = rows_of(tx, shard);
        select.and_where(one_of(ids)).order_by("id", Order::Asc);
        select
    };
    let read = |row: &QueryResult| {
        let row = read_row(backend, row)?;
        let weight = row.entry.weight();
        Ok((row, weight))
    };
    bounded::read(tx, ids, DUE_BYTES, select, read).await
}

fn read_row(backend: DbBackend, row: &QueryResult) -> Result<Parked> {
    let mut entry = read_entry(row, backend, "id")?;
    Ok(Parked {
        came_from: take_came_from(&mut entry),
        entry,
        state: Parking::named(&row.try_get::<String>("", "state")?),
        attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).unwrap_or(0),
        delay: Duration::ZERO,
        error: row.try_get("", "error")?,
        failed_at: read_stamp(row, backend, "failed_at")?,
    })
}
