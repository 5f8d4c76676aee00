//! Replays: a range of old entries is delivered again to one route, at a measured pace, without touching any other.
//!
//! A replay parks the entries it selects, a few each second; the route's own worker then delivers them like any entry that is
//! due again, in order with what is new on their keys.

use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;

use crate::error::{Error, ErrorKind, NextStep, Result};
use crate::job::replay::condition;
use crate::operate::audit;
use crate::state::cursor;
use crate::state::parked;
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table, json_value, read_time};
use crate::store::tx::Tx;

pub use crate::job::replay::{Range, ReplayState};

/// An order to replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// To this route alone.
    pub route: String,
    /// These entries.
    pub range: Range,
    /// At most this many a second.
    pub per_second: u32,
    /// Let a subscriber's handler have its effect again, by forgetting that it handled these events. Otherwise only events
    /// that it has not handled have an effect.
    pub again: bool,
}

/// Begins a replay of what the route has passed already; a relay carries it out. Answers its number.
pub async fn start(outbox: &dyn Outbox, replay: &Replay, actor: &str) -> Result<i64> {
    outbox.pulse().await?;
    let (first, last) = reachable(outbox, replay).await?;
    let tx = table::begin_own(outbox.db()).await?;
    cursor::lock(&tx, &replay.route).await?;
    let replay_id = insert(&tx, replay, (first, last), actor).await?;
    let detail = serde_json::json!({ "replay_id": replay_id, "range": replay.range, "again": replay.again });
    audit::record(&tx, actor, "replay.start", &replay.route, &detail).await?;
    cursor::signal(&tx, &replay.route).await?;
    tx.commit().await?;
    Ok(replay_id)
}

/// The first and the last entry of the range that the route has passed already.
async fn reachable(outbox: &dyn Outbox, replay: &Replay) -> Result<(i64, i64)> {
    if replay.per_second == 0 {
        return Err(Error::invalid("per_second is 0; give at least 1"));
    }
    let unread = first_unread(outbox, &replay.route).await?;
    let (first, last) = bounds(outbox.db(), &replay.range).await?;
    // An entry that the route has still to read would overtake its own predecessors.
    let last = unread.map_or(last, |unread| Ord::min(last, unread - 1));
    if last < first {
        return Err(Error::invalid(format!(
            "route {:?} has not come as far as this range; it delivers these entries by itself",
            replay.route
        )));
    }
    Ok((first, last))
}

/// The first entry that some shard of the route has not read; `None` when all stand at the head.
async fn first_unread(outbox: &dyn Outbox, route: &str) -> Result<Option<i64>> {
    let tx = table::look(outbox.db()).await?;
    cursor::shards(&tx, route).await?; // or there is no such route
    let positions = cursor::positions(&tx, route).await?;
    tx.commit().await?;
    let mut first = None;
    for mut position in positions {
        loop {
            let page = outbox.read(position, 1).await?;
            if let Some(entry) = page.entries.first() {
                first = Some(first.map_or(entry.id, |known| Ord::min(known, entry.id)));
                break;
            }
            if page.next == position {
                break;
            }
            position = page.next;
        }
    }
    Ok(first)
}

async fn insert(tx: &Tx, replay: &Replay, (first, last): (i64, i64), actor: &str) -> Result<i64> {
    let filter = serde_json::to_string(&replay.range)?;
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Replay))
        .columns([
            "route",
            "filter",
            "per_second",
            "next_id",
            "until_id",
            "again",
            "created_by",
        ])
        .values_panic([
            replay.route.as_str().into(),
            json_value(tx.get_database_backend(), &filter),
            i32::try_from(replay.per_second).unwrap_or(i32::MAX).into(),
            (first - 1).into(),
            last.into(),
            replay.again.into(),
            actor.into(),
        ]);
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("begin a replay", source))?;
    let mut newest = Query::select();
    // The route is locked: its newest replay is this one.
    newest
        .expr_as(Expr::col("replay_id").max(), "replay_id")
        .from(table::named(tx, Table::Replay))
        .and_where(Expr::col("route").eq(replay.route.as_str()));
    let row = tx
        .query_one(&newest)
        .await
        .map_err(|source| Error::db("read the replay's number", source))?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "replay_id"))?)
}

/// Ends the replays of a route that is about to be forgotten.
pub(crate) async fn cancel_of(tx: &Tx, route: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Replay))
        .value("state", ReplayState::Canceled.name())
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("state").eq(ReplayState::Running.name()));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("cancel replays", source))?;
    Ok(())
}

/// The ids the range can reach now; an error when it is empty. This may read the whole log, so nothing is locked meanwhile.
async fn bounds(db: &DatabaseConnection, range: &Range) -> Result<(i64, i64)> {
    let tx = table::look(db).await?;
    let mut select = Query::select();
    select
        .expr_as(Expr::col("id").min(), "first")
        .expr_as(Expr::col("id").max(), "last")
        .from(table::named(&tx, Table::Outbox))
        .cond_where(condition(&tx, range));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look for what to replay", source))?;
    tx.commit().await?;
    let first: Option<i64> = row.as_ref().map_or(Ok(None), |row| row.try_get("", "first"))?;
    let last: Option<i64> = row.as_ref().map_or(Ok(None), |row| row.try_get("", "last"))?;
    first.zip(last).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "no entry of the outbox lies in this range; archived events can be read but not delivered again",
        )
    })
}

/// The entries that a replay would deliver.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Preview {
    /// How many entries.
    pub entries: u64,
    /// From this one.
    pub first_id: i64,
    /// To this one.
    pub last_id: i64,
}

/// A replay that was begun, and how far it has come.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayStatus {
    /// Its number.
    pub replay_id: i64,
    /// The route it delivers to.
    pub route: String,
    /// Which entries.
    pub range: Range,
    /// At most this many a second.
    pub per_second: u32,
    /// Whether a subscriber's handler has its effect again.
    pub again: bool,
    /// Whether it still runs.
    pub state: ReplayState,
    /// How many entries it has handed to the route so far.
    pub parked: u64,
    /// The last entry that was looked at.
    pub next_id: i64,
    /// The last entry of all.
    pub until_id: i64,
    /// When it was begun.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// By whom.
    pub created_by: String,
}

/// Counts what a replay would deliver now. This reads every entry of the range, and writes nothing.
pub async fn preview(outbox: &dyn Outbox, replay: &Replay) -> Result<Preview> {
    let (first_id, last_id) = reachable(outbox, replay).await?;
    let tx = table::look(outbox.db()).await?;
    let mut select = Query::select();
    select
        .column("event_type")
        .expr_as(Expr::cust("count(*)"), "entries")
        .from(table::named(&tx, Table::Outbox))
        .cond_where(condition(&tx, &replay.range))
        .and_where(Expr::col("id").gte(first_id))
        .and_where(Expr::col("id").lte(last_id))
        .group_by_col("event_type");
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("count what to replay", source))?;
    tx.commit().await?;
    let filter = replay.range.filter();
    let mut entries = 0;
    for row in &rows {
        if filter.matches(&row.try_get::<String>("", "event_type")?) {
            entries += u64::try_from(row.try_get::<i64>("", "entries")?).unwrap_or(0);
        }
    }
    Ok(Preview {
        entries,
        first_id,
        last_id,
    })
}

/// The newest replays, at most `limit`, newest first. This writes nothing.
pub async fn list(db: &DatabaseConnection, limit: u64) -> Result<Vec<ReplayStatus>> {
    let tx = table::look(db).await?;
    let listed = select(&tx, None, limit).await?;
    tx.commit().await?;
    Ok(listed)
}

/// Stops a replay: it hands no more entries to its route, and those that it has handed over and that were not tried yet are
/// taken back; answers how many. One that is being delivered at this moment is delivered, and one that has failed is retried
/// by the route's policy. Inbox rows that the replay has removed to have the effect again stay removed.
pub async fn cancel(db: &DatabaseConnection, replay_id: i64, actor: &str) -> Result<u64> {
    let tx = table::begin_own(db).await?;
    let route = running(&tx, replay_id).await?.route;
    // No worker settles, and no step parks, while the route is locked.
    cursor::lock(&tx, &route).await?;
    running(&tx, replay_id).await?;
    set_canceled(&tx, replay_id).await?;
    let removed = parked::remove_replayed(&tx, &route, replay_id).await?;
    let detail = serde_json::json!({ "replay_id": replay_id, "removed": removed });
    audit::record(&tx, actor, "replay.cancel", &route, &detail).await?;
    cursor::signal(&tx, &route).await?;
    tx.commit().await?;
    Ok(removed)
}

async fn running(tx: &Tx, replay_id: i64) -> Result<ReplayStatus> {
    match select(tx, Some(replay_id), 1).await?.pop() {
        None => Err(
            Error::new(ErrorKind::NotFound, format!("there is no replay {replay_id}"))
                .with_next([NextStep::ShowReplays]),
        ),
        Some(replay) if replay.state != ReplayState::Running => Err(Error::new(
            ErrorKind::Conflict,
            format!("replay {replay_id} is {} already", replay.state),
        )),
        Some(replay) => Ok(replay),
    }
}

async fn set_canceled(tx: &Tx, replay_id: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Replay))
        .value("state", ReplayState::Canceled.name())
        .and_where(Expr::col("replay_id").eq(replay_id));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("cancel a replay", source))?;
    Ok(())
}

async fn select(tx: &Tx, replay_id: Option<i64>, limit: u64) -> Result<Vec<ReplayStatus>> {
    let backend = tx.get_database_backend();
    let filter = match backend {
        DbBackend::Postgres => Expr::col("filter").cast_as("text"),
        _ => Expr::col("filter"),
    };
    let mut select = Query::select();
    select
        .columns([
            "replay_id",
            "route",
            "per_second",
            "next_id",
            "until_id",
            "again",
            "state",
            "parked",
            "created_at",
            "created_by",
        ])
        .expr_as(filter, "filter")
        .from(table::named(tx, Table::Replay))
        .order_by("replay_id", Order::Desc)
        .limit(limit);
    if let Some(replay_id) = replay_id {
        select.and_where(Expr::col("replay_id").eq(replay_id));
    }
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("list replays", source))?;
    rows.iter().map(|row| read(row, backend)).collect()
}

fn read(row: &QueryResult, backend: DbBackend) -> Result<ReplayStatus> {
    Ok(ReplayStatus {
        replay_id: row.try_get("", "replay_id")?,
        route: row.try_get("", "route")?,
        range: serde_json::from_str(&row.try_get::<String>("", "filter")?)?,
        per_second: u32::try_from(row.try_get::<i32>("", "per_second")?).unwrap_or(1),
        again: row.try_get("", "again")?,
        state: ReplayState::named(&row.try_get::<String>("", "state")?)?,
        parked: u64::try_from(row.try_get::<i64>("", "parked")?).unwrap_or(0),
        next_id: row.try_get("", "next_id")?,
        until_id: row.try_get("", "until_id")?,
        created_at: read_time(row, backend, "created_at")?,
        created_by: row.try_get("", "created_by")?,
    })
}
