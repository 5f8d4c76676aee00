//! Replays under way: parks the entries of a range again, a few at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, QueryResult};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::error::{Error, ErrorKind, Result};
use crate::event::entry::Entry;
use crate::job::{Job, When};
use crate::policy::filter::Filter;
use crate::state::cursor::{self, Shard};
use crate::state::parked::{self, Parked, ParkedBy, Parking};
use crate::store::bounded::{self, Bounded};
use crate::store::db_clock::stamp;
use crate::store::inbox;
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table, read_entry};
use crate::store::tx::Tx;

/// Entries parked in one step.
const STEP: u32 = 500;
/// About how many bytes that may be.
const STEP_BYTES: usize = 4 << 20;
/// How long a process that dies keeps others from going on.
const CLAIM: Duration = Duration::from_secs(10);
/// How long one run goes on; the next one follows within a second.
const RUN: Duration = Duration::from_secs(3);
/// Entries looked at in one statement.
const LOOK: u64 = 5_000;
/// A step looks no longer than this for entries of its range; the next one goes on there.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// A replay waits while its route has this many entries parked.
const PARKED_MAX: u64 = 5_000;

/// The state of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// A relay carries it out.
    Running,
    /// It has handed every entry of its range to the route.
    Done,
    /// An operator stopped it, or its route was forgotten.
    Canceled,
}

impl ReplayState {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "running" => Ok(Self::Running),
            "done" => Ok(Self::Done),
            "canceled" => Ok(Self::Canceled),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!("a replay is in the state {name:?}, which this version does not know"),
            )),
        }
    }
}

impl fmt::Display for ReplayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which entries to deliver again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// From this entry on.
    #[serde(default)]
    pub from_id: Option<i64>,
    /// Up to this entry.
    #[serde(default)]
    pub to_id: Option<i64>,
    /// Recorded at or after this time.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub from_time: Option<OffsetDateTime>,
    /// Recorded before this time.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub to_time: Option<OffsetDateTime>,
    /// Types that match one of these patterns; empty means any.
    #[serde(default)]
    pub types: Vec<String>,
    /// Of this aggregate type.
    #[serde(default)]
    pub aggregate_type: Option<String>,
    /// Of this aggregate.
    #[serde(default)]
    pub aggregate_id: Option<String>,
}

impl Range {
    /// Whether it takes the whole history.
    pub fn is_whole(&self) -> bool {
        let Self {
            from_id,
            to_id,
            from_time,
            to_time,
            types,
            aggregate_type,
            aggregate_id,
        } = self;
        let has_bound = from_id.is_some() || to_id.is_some() || from_time.is_some() || to_time.is_some();
        !has_bound && types.is_empty() && aggregate_type.is_none() && aggregate_id.is_none()
    }

    pub(crate) fn filter(&self) -> Filter {
        match self.types.as_slice() {
            [] => Filter::all(),
            types => Filter::any_of(types.to_vec()),
        }
    }
}

pub(crate) fn condition(tx: &Tx, range: &Range) -> sea_orm::sea_query::Condition {
    let backend = tx.get_database_backend();
    let mut all = sea_orm::sea_query::Condition::all();
    if let Some(from) = range.from_id {
        all = all.add(Expr::col("id").gte(from));
    }
    if let Some(to) = range.to_id {
        all = all.add(Expr::col("id").lte(to));
    }
    if let Some(from) = range.from_time {
        all = all.add(Expr::col("created_at").gte(Expr::val(stamp(backend, from))));
    }
    if let Some(to) = range.to_time {
        all = all.add(Expr::col("created_at").lt(Expr::val(stamp(backend, to))));
    }
    if let Some(kind) = &range.aggregate_type {
        all = all.add(Expr::col("aggregate_type").eq(kind.as_str()));
    }
    if let Some(id) = &range.aggregate_id {
        all = all.add(Expr::col("aggregate_id").eq(id.as_str()));
    }
    all
}

/// A replay under way.
struct Running {
    replay_id: i64,
    route: String,
    range: Range,
    per_second: u32,
    next_id: i64,
    until_id: i64,
    again: bool,
}

pub(crate) fn job() -> Job {
    let work = |outbox: Arc<dyn Outbox>| async move {
        let (begun, mut steps) = (Instant::now(), 0);
        let mut replays = running(outbox.db()).await?;
        replays.shuffle(&mut rand::rng()); // so that none is always the last
        for replay in replays {
            if begun.elapsed() > RUN {
                break;
            }
            match step(outbox.db(), &replay).await {
                Ok(()) => steps += 1,
                // One that cannot go on must not keep the others from it.
                Err(error) => {
                    tracing::warn!(route = %replay.route, error = error.report(), "replay cannot go on");
                }
            }
        }
        Ok(steps)
    };
    let mut job = Job::new("replay", When::Signalled, work);
    job.timeout = CLAIM;
    job
}

async fn running(db: &DatabaseConnection) -> Result<Vec<Running>> {
    let tx = table::look(db).await?;
    let filter = match tx.get_database_backend() {
        sea_orm::DbBackend::Postgres => Expr::col("filter").cast_as("text"),
        _ => Expr::col("filter"),
    };
    let mut select = Query::select();
    select
        .columns(["replay_id", "route", "per_second", "next_id", "until_id", "again"])
        .expr_as(filter, "filter")
        .from(table::named(&tx, Table::Replay))
        .and_where(Expr::col("state").eq(ReplayState::Running.name()));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read replays", source))?;
    tx.commit().await?;
    rows.iter()
        .map(|row| {
            Ok(Running {
                replay_id: row.try_get("", "replay_id")?,
                route: row.try_get("", "route")?,
                range: serde_json::from_str(&row.try_get::<String>("", "filter")?)?,
                per_second: u32::try_from(row.try_get::<i32>("", "per_second")?).unwrap_or(1),
                next_id: row.try_get("", "next_id")?,
                until_id: row.try_get("", "until_id")?,
                again: row.try_get("", "again")?,
            })
        })
        .collect()
}

/// Parks the next second's worth of entries, unless there is no room: then the route is paused or its destination away.
async fn step(db: &DatabaseConnection, replay: &Running) -> Result<()> {
    if parked_rows(db, &replay.route).await? > PARKED_MAX {
        return Ok(());
    }
    let mut found = search(db, replay).await?;
    let Bounded { rows: entries, is_cut } = read(db, &found.ids).await?;
    if let Some(last) = entries.last().filter(|_| is_cut) {
        found.next_id = last.id;
        found.ids.retain(|id| *id <= last.id);
    }
    let tx = table::begin_own(db).await?;
    if !entries.is_empty() {
        park(&tx, replay, entries).await?;
    }
    if progress(&tx, replay, &found).await? {
        tx.commit().await?;
    }
    Ok(())
}

/// The entries that a step has found, and how far it has looked.
struct Found {
    ids: Vec<i64>,
    next_id: i64,
}

/// Looks for entries of the range, a bounded number at a time. Nothing is locked meanwhile: what lies behind the cursor does not
/// change, and retention keeps it.
async fn search(db: &DatabaseConnection, replay: &Running) -> Result<Found> {
    let begun = Instant::now();
    let wanted = usize::try_from(Ord::min(replay.per_second, STEP)).unwrap_or(1);
    let mut found = Found {
        ids: Vec::new(),
        next_id: replay.next_id,
    };
    while found.ids.len() < wanted && found.next_id < replay.until_id && begun.elapsed() < LOOK_TIME {
        look(db, replay, &mut found, wanted).await?;
    }
    Ok(found)
}

async fn look(db: &DatabaseConnection, replay: &Running, found: &mut Found, wanted: usize) -> Result<()> {
    let filter = replay.range.filter();
    let tx = table::look(db).await?;
    let until = reach(&tx, found.next_id, replay.until_id).await?;
    let mut select = Query::select();
    select
        .columns(["id", "event_type"])
        .from(table::named(&tx, Table::Outbox))
        .cond_where(condition(&tx, &replay.range))
        .and_where(Expr::col("id").gt(found.next_id))
        .and_where(Expr::col("id").lte(until))
        .order_by("id", Order::Asc);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look for what to replay", source))?;
    tx.commit().await?;
    for row in &rows {
        if filter.matches(&row.try_get::<String>("", "event_type")?) {
            found.ids.push(row.try_get("", "id")?);
        }
        if found.ids.len() == wanted {
            found.next_id = row.try_get("", "id")?;
            return Ok(());
        }
    }
    found.next_id = until;
    Ok(())
}

/// Where [`LOOK`] entries after `from` end; `until` when there are none.
async fn reach(tx: &Tx, from: i64, until: i64) -> Result<i64> {
    let mut next = Query::select();
    next.column("id")
        .from(table::named(tx, Table::Outbox))
        .and_where(Expr::col("id").gt(from))
        .and_where(Expr::col("id").lte(until))
        .order_by("id", Order::Asc)
        .limit(LOOK);
    let mut last = Query::select();
    last.expr_as(Expr::col("id").max(), "last").from_subquery(next, "next");
    let row = tx
        .query_one(&last)
        .await
        .map_err(|source| Error::db("look how far to look", source))?;
    let last: Option<i64> = row.map_or(Ok(None), |row| row.try_get("", "last"))?;
    Ok(last.unwrap_or(until))
}

async fn read(db: &DatabaseConnection, ids: &[i64]) -> Result<Bounded<Entry>> {
    let tx = table::look(db).await?;
    let backend = tx.get_database_backend();
    let select = |ids: &[i64]| {
        let mut select = table::select_events(backend);
        select
            .columns(["id", "created_at"])
            .from(table::named(&tx, Table::Outbox))
            .and_where(Expr::col("id").is_in(ids.iter().copied()))
            .order_by("id", Order::Asc);
        select
    };
    let read = |row: &QueryResult| {
        let entry = read_entry(row, backend, "id")?;
        let weight = entry.weight();
        Ok((entry, weight))
    };
    let entries = bounded::read(&tx, ids, STEP_BYTES, select, read).await?;
    tx.commit().await?;
    Ok(entries)
}

/// Parks entries. The cursor rows are locked, so that no worker settles meanwhile; the signal makes the workers put what is
/// parked into order.
async fn park(tx: &Tx, replay: &Running, entries: Vec<Entry>) -> Result<()> {
    cursor::lock(tx, &replay.route).await?;
    let shards = cursor::shards(tx, &replay.route).await?;
    if replay.again {
        let keys: Vec<String> = entries
            .iter()
            .map(|entry| format!("{}:{}", replay.route, entry.event.id))
            .collect();
        inbox::forget(tx, &keys).await?;
    }
    let mut by_shard: HashMap<u32, Vec<Parked>> = HashMap::new();
    for entry in entries {
        by_shard
            .entry(entry.event.key().shard(shards))
            .or_default()
            .push(Parked::untried(entry, Parking::Wait));
    }
    for (number, rows) in by_shard {
        let shard = Shard {
            route: replay.route.clone(),
            number,
        };
        parked::insert(tx, &shard, ParkedBy::Replay(replay.replay_id), &rows).await?;
    }
    cursor::signal(tx, &replay.route).await
}

async fn parked_rows(db: &DatabaseConnection, route: &str) -> Result<u64> {
    let tx = table::look(db).await?;
    let mut rows = 0;
    for number in 0..cursor::shards(&tx, route).await? {
        rows += parked::count(
            &tx,
            &Shard {
                route: route.to_owned(),
                number,
            },
        )
        .await?;
    }
    tx.commit().await?;
    Ok(rows)
}

/// Writes down how far it has come; `false` when it was canceled meanwhile.
async fn progress(tx: &Tx, replay: &Running, found: &Found) -> Result<bool> {
    let state = if found.next_id >= replay.until_id {
        ReplayState::Done
    } else {
        ReplayState::Running
    };
    let parked = i64::try_from(found.ids.len()).unwrap_or(i64::MAX);
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Replay))
        .value("next_id", found.next_id)
        .value("state", state.name())
        .value("parked", Expr::col("parked").add(parked))
        .and_where(Expr::col("replay_id").eq(replay.replay_id))
        .and_where(Expr::col("next_id").eq(replay.next_id)) // another process may have gone on
        .and_where(Expr::col("state").eq(ReplayState::Running.name()));
    let written = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("write a replay's progress", source))?;
    Ok(written.rows_affected() == 1)
}
