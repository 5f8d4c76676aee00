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
use crate::table::{self, EVENT_COLUMNS, Table, event_values, read_entry, read_time};

/// Rows in one statement.
const ROWS_MAX: usize = 300;
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
    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Held => "held",
        }
    }

    fn named(name: &str) -> Self {
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

/// The origin of what a replay has parked.
pub(crate) const REPLAY: &str = "replay";

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
    let mut heads = rows_of(tx, shard);
    heads
        .and_where(Expr::col("state").eq(Parking::Retry.name()))
        .and_where(Expr::col("next_at").lte(db_now(backend)))
        .order_by(first, Order::Asc)
        .limit(limit);
    let heads = read_rows(tx, &heads).await?;
    if ordering != Ordering::Key || heads.is_empty() {
        return Ok(heads);
    }
    let keys: HashSet<Key> = heads.iter().map(|head| head.entry.event.key()).collect();
    let mut select = rows_of(tx, shard);
    select.and_where(among(keys)).order_by("id", Order::Asc).limit(limit);
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

/// Which of these rows a replay has parked.
pub(crate) async fn replayed(tx: &DatabaseTransaction, route: &str, ids: &[i64]) -> Result<HashSet<i64>> {
    let mut replayed = HashSet::new();
    for ids in ids.chunks(ROWS_MAX) {
        let mut select = Query::select();
        select
            .column("id")
            .from(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(route))
            .and_where(Expr::col("origin").eq(REPLAY))
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

/// Removes rows that were delivered or given up.
pub(crate) async fn remove(tx: &DatabaseTransaction, route: &str, ids: &[i64]) -> Result<()> {
    for ids in ids.chunks(ROWS_MAX) {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(route))
            .and_where(one_of(ids));
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

/// Puts the rows of these keys into order: the first of a lane is due unless it is held, the others wait. Answers those of
/// the keys that have no row any more.
pub(crate) async fn arrange(
    tx: &DatabaseTransaction,
    shard: &Shard,
    ordering: Ordering,
    mut keys: HashSet<Key>,
) -> Result<HashSet<Key>> {
    if keys.is_empty() {
        return Ok(keys);
    }
    let places = places(tx, shard, ordering, Some(&keys)).await?;
    put(tx, shard, &misplaced(ordering, &places)).await?;
    for place in &places {
        keys.remove(&place.key);
    }
    Ok(keys)
}

/// What a shard has parked, put into order.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// The lanes that stand still.
    pub(crate) lanes: Lanes,
    /// How many rows there are.
    pub(crate) parked: u64,
    /// Whether every lane's first row is due or held; otherwise some are to be made due when others are gone.
    pub(crate) is_whole: bool,
}

/// Puts the rows of a shard into order, and makes no more than [`DUE_MAX`] of them due: whoever waits for the cursor meanwhile
/// does not wait for long, however many an operator has retried.
pub(crate) async fn arrange_all(tx: &DatabaseTransaction, shard: &Shard, ordering: Ordering) -> Result<Arranged> {
    let places = places(tx, shard, ordering, None).await?;
    let mut misplaced = misplaced(ordering, &places);
    let is_whole = misplaced.due.len() <= DUE_MAX;
    misplaced.due.truncate(DUE_MAX);
    put(tx, shard, &misplaced).await?;
    let parked = places.len() as u64;
    let lanes = match ordering {
        Ordering::Strict => places.first().map(|_| Lane::Line).into_iter().collect(),
        Ordering::Key => places.into_iter().map(|place| Lane::Key(place.key)).collect(),
        Ordering::None => Lanes::new(),
    };
    Ok(Arranged {
        lanes,
        parked,
        is_whole,
    })
}

/// A parked row, as far as its place among the others goes.
#[derive(Debug)]
struct Place {
    id: i64,
    key: Key,
    state: Parking,
}

/// The places of a shard, in order by id. Only where lanes are keys can one key be looked at without the others.
async fn places(
    tx: &DatabaseTransaction,
    shard: &Shard,
    ordering: Ordering,
    keys: Option<&HashSet<Key>>,
) -> Result<Vec<Place>> {
    let mut select = Query::select();
    select
        .columns(["id", "aggregate_type", "aggregate_id", "state"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard));
    if let (Ordering::Key | Ordering::None, Some(keys)) = (ordering, keys) {
        select.and_where(among(keys.clone()));
    }
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read the order of what is parked", source))?;
    let mut places: Vec<Place> = rows.iter().map(read_place).collect::<Result<_>>()?;
    places.sort_unstable_by_key(|place| place.id);
    Ok(places)
}

fn read_place(row: &QueryResult) -> Result<Place> {
    Ok(Place {
        id: row.try_get("", "id")?,
        key: read_key(row)?,
        state: Parking::named(&row.try_get::<String>("", "state")?),
    })
}

/// Rows whose state is not that of their place.
#[derive(Debug, Default, PartialEq)]
struct Misplaced {
    /// They wait, and nothing of their lane is before them.
    due: Vec<i64>,
    /// They are due, and something of their lane is before them.
    wait: Vec<i64>,
}

/// Pure: which of these rows, in order by id, are out of place.
fn misplaced(ordering: Ordering, places: &[Place]) -> Misplaced {
    let mut misplaced = Misplaced::default();
    let mut lanes = HashSet::new();
    for place in places {
        let is_first = match ordering {
            Ordering::Strict => lanes.is_empty(),
            Ordering::Key => !lanes.contains(&place.key),
            Ordering::None => true,
        };
        match (is_first, place.state) {
            (true, Parking::Wait) => misplaced.due.push(place.id),
            (false, Parking::Retry) => misplaced.wait.push(place.id),
            _ => {}
        }
        lanes.insert(&place.key);
    }
    misplaced
}

async fn put(tx: &DatabaseTransaction, shard: &Shard, misplaced: &Misplaced) -> Result<()> {
    let now = db_now(tx.get_database_backend());
    for (ids, state, next_at) in [
        (&misplaced.wait, Parking::Wait, Expr::cust("null")),
        (&misplaced.due, Parking::Retry, now),
    ] {
        for ids in ids.chunks(ROWS_MAX) {
            let mut update = Query::update();
            update
                .table(table::named(tx, Table::Parked))
                .value("state", state.name())
                .value("next_at", next_at.clone())
                .and_where(Expr::col("route").eq(shard.route.as_str()))
                .and_where(one_of(ids));
            tx.execute(&update)
                .await
                .map_err(|source| Error::db("put parked entries into order", source))?;
        }
    }
    Ok(())
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

fn among(keys: HashSet<Key>) -> Expr {
    Expr::tuple([Expr::col("aggregate_type"), Expr::col("aggregate_id")])
        .in_tuples(keys.into_iter().map(|key| (key.aggregate_type, key.aggregate_id)))
}

fn rows_of(tx: &DatabaseTransaction, shard: &Shard) -> SelectStatement {
    let mut select = table::select_events(tx.get_database_backend());
    select
        .columns(["id", "created_at", "state", "attempts", "error", "failed_at"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard));
    select
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
    Ok(Parked {
        entry: read_entry(row, backend, "id")?,
        state: Parking::named(&row.try_get::<String>("", "state")?),
        attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).unwrap_or(0),
        delay: Duration::ZERO,
        error: row.try_get("", "error")?,
        failed_at: read_stamp(row, backend, "failed_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_out_of_place_is_named() {
        use Parking::{Held, Retry, Wait};
        let rows = [
            ("a", Retry),
            ("a", Wait),
            ("b", Wait),
            ("b", Retry),
            ("c", Held),
            ("c", Retry),
            ("c", Wait),
        ];
        let places: Vec<Place> = (1..)
            .zip(rows)
            .map(|(id, (key, state))| Place {
                id,
                key: Key {
                    aggregate_type: "suite".to_owned(),
                    aggregate_id: key.to_owned(),
                },
                state,
            })
            .collect();
        let check = |ordering: Ordering, due: &[i64], wait: &[i64]| {
            let expected = Misplaced {
                due: due.to_vec(),
                wait: wait.to_vec(),
            };
            assert_eq!(misplaced(ordering, &places), expected, "{ordering:?}");
        };
        check(Ordering::Key, &[3], &[4, 6]);
        check(Ordering::Strict, &[], &[4, 6]);
        check(Ordering::None, &[2, 3, 7], &[]);
    }
}
