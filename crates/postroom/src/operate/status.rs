//! Where every route stands.

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::entry::Position;
use crate::job::{self, JobStatus};
use crate::state::dead::LetterState;
use crate::state::outage::{self, Side};
use crate::state::parked::Parking;
use crate::store::db_clock::{db_now, read_now, read_stamp};
use crate::store::outbox::Inspect;
use crate::store::table::{self, Table, read_time, read_uuid};
use crate::store::tx::Tx;

/// The whole platform at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Each route shard.
    pub routes: Vec<RouteStatus>,
    /// Each job.
    pub jobs: Vec<JobStatus>,
    /// Events that wait for their time.
    pub scheduled: u64,
}

/// Where a route shard stands.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// Its route.
    pub route: String,
    /// Its number.
    pub shard: u32,
    /// Whether an operator paused it.
    pub is_paused: bool,
    /// The relay that works it.
    pub owner: Option<String>,
    /// Whether that lease is still valid.
    pub is_leased: bool,
    /// How long ago the owner's lease ran out, if it neither renewed it nor gave it back.
    pub lapsed_s: Option<f64>,
    /// How often it has changed hands.
    pub epoch: i64,
    /// Entries delivered so far.
    pub delivered: i64,
    /// About how many entries are still to be read (also those that other routes take).
    pub backlog: u64,
    /// How old the oldest of them is.
    pub oldest_s: Option<f64>,
    /// Entries waiting for a retry.
    pub retrying: u64,
    /// How often those were tried in vain, all together.
    pub attempts: u64,
    /// Entries waiting behind one on their key.
    pub waiting: u64,
    /// How old the oldest of all these waiting entries is.
    pub parked_s: Option<f64>,
    /// The first of the entries that wait for a retry.
    pub retry_event: Option<Uuid>,
    /// How long until it is tried again; zero when that is due.
    pub retry_s: Option<f64>,
    /// Dead letters that hold their key.
    pub held: u64,
    /// Dead letters that wait for a decision.
    pub dead: u64,
    /// Why it cannot go on, in the words of the end that is out of reach.
    pub down: Option<String>,
    /// Which end that is.
    #[serde(skip)]
    pub down_side: Option<Side>,
    /// For how long.
    pub down_s: Option<f64>,
    /// How long until the destination is asked again; zero when that is due. None, if it is asked every few seconds.
    pub probe_s: Option<f64>,
    /// When progress was last written.
    #[serde(with = "time::serde::rfc3339::option")]
    pub settled_at: Option<OffsetDateTime>,
    #[serde(skip)]
    pub(super) position: Position,
}

/// Whether a route shard goes on, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RouteState {
    /// A relay works it.
    Working,
    /// An operator paused it.
    Paused,
    /// No relay works it.
    Unworked,
    /// One of its ends is out of reach.
    Down {
        /// Why, in the words of that end.
        says: String,
    },
    /// A relay works it, but dead letters hold keys.
    Held {
        /// How many keys.
        keys: u64,
    },
}

impl RouteStatus {
    /// Its state. Of several that are true, the one that an operator must change first.
    pub fn state(&self) -> RouteState {
        match self {
            Self { is_paused: true, .. } => RouteState::Paused,
            Self { is_leased: false, .. } => RouteState::Unworked,
            Self { down: Some(says), .. } => RouteState::Down { says: says.clone() },
            Self { held: keys @ 1.., .. } => RouteState::Held { keys: *keys },
            Self { .. } => RouteState::Working,
        }
    }
}

/// Where every route stands. This writes nothing.
pub async fn status(store: &dyn Inspect) -> Result<Status> {
    let tx = table::look(store.db()).await?;
    let mut routes = cursors(&tx).await?;
    count_parked(&tx, &mut routes).await?;
    count_dead(&tx, &mut routes).await?;
    let jobs = job::statuses(&tx).await?;
    let scheduled = count(&tx, Table::Scheduled).await?;
    let now = read_now(&tx).await?;
    measure_parked(&tx, &mut routes, now).await?;
    find_first_retries(&tx, &mut routes, now).await?;
    tx.commit().await?;
    for route in &mut routes {
        route.backlog = store.backlog(route.position).await?;
        if route.backlog > 0 {
            let oldest = oldest(store, route.position).await?;
            route.oldest_s = oldest.map(|at| (now - at).as_seconds_f64());
        }
    }
    Ok(Status {
        routes,
        jobs,
        scheduled,
    })
}

/// When the first entry after a position was recorded.
async fn oldest(store: &dyn Inspect, position: Position) -> Result<Option<OffsetDateTime>> {
    let page = store.read(position, 1).await?;
    if let Some(entry) = page.entries.first() {
        return Ok(Some(entry.created_at));
    }
    let waiting = store.not_yet_readable(1).await?;
    Ok(waiting.first().map(|entry| entry.created_at))
}

pub(super) async fn cursors(tx: &Tx) -> Result<Vec<RouteStatus>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns([
            "route",
            "shard",
            "position",
            "epoch",
            "owner",
            "expires_at",
            "is_paused",
            "settled_at",
            "delivered",
        ])
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Cursor))
        .order_by("route", Order::Asc)
        .order_by("shard", Order::Asc);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read the routes", source))?;
    let mut routes = rows
        .iter()
        .map(|row| {
            let now = read_time(row, backend, "now")?;
            let owner: Option<String> = row.try_get("", "owner")?;
            let expires_at = read_stamp(row, backend, "expires_at")?;
            let lapsed_at = expires_at.filter(|at| owner.is_some() && *at <= now);
            Ok(RouteStatus {
                route: row.try_get("", "route")?,
                shard: u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
                is_paused: row.try_get("", "is_paused")?,
                owner,
                is_leased: expires_at.is_some_and(|at| at > now),
                lapsed_s: lapsed_at.map(|at| (now - at).as_seconds_f64()),
                epoch: row.try_get("", "epoch")?,
                delivered: row.try_get("", "delivered")?,
                backlog: 0,
                oldest_s: None,
                retrying: 0,
                attempts: 0,
                waiting: 0,
                parked_s: None,
                retry_event: None,
                retry_s: None,
                held: 0,
                dead: 0,
                down: None,
                down_side: None,
                down_s: None,
                probe_s: None,
                settled_at: read_stamp(row, backend, "settled_at")?,
                position: row.try_get::<String>("", "position")?.parse()?,
            })
        })
        .collect::<Result<Vec<RouteStatus>>>()?;
    add_down(tx, &mut routes).await?;
    Ok(routes)
}

async fn count_parked(tx: &Tx, routes: &mut [RouteStatus]) -> Result<()> {
    for (route, shard, state, rows) in count_states(tx, Table::Parked, &["retry", "held", "wait"]).await? {
        let Some(status) = routes
            .iter_mut()
            .find(|status| status.route == route && status.shard == shard)
        else {
            continue;
        };
        match state.as_str() {
            "retry" => status.retrying = rows,
            "held" => status.held = rows,
            _ => status.waiting = rows,
        }
    }
    Ok(())
}

/// How often what waits was tried, and how old it is.
async fn measure_parked(tx: &Tx, routes: &mut [RouteStatus], now: OffsetDateTime) -> Result<()> {
    let mut select = Query::select();
    select
        .columns(["route", "shard", "attempts"])
        .expr_as(Expr::cust("count(*)"), "entries")
        .expr_as(Expr::col("created_at").min(), "oldest_at")
        .from(table::named(tx, Table::Parked))
        .and_where(Expr::col("state").ne("held"))
        .group_by_columns(["route", "shard", "attempts"]);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("measure entries that wait", source))?;
    for row in rows {
        let route: String = row.try_get("", "route")?;
        let shard = u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0);
        let oldest_at = read_time(&row, tx.get_database_backend(), "oldest_at")?;
        let attempts = i64::from(row.try_get::<i32>("", "attempts")?) * row.try_get::<i64>("", "entries")?;
        let is_this = |status: &&mut RouteStatus| status.route == route && status.shard == shard;
        if let Some(status) = routes.iter_mut().find(is_this) {
            let age_s = (now - oldest_at).as_seconds_f64();
            status.attempts += u64::try_from(attempts).unwrap_or(0);
            status.parked_s = Some(status.parked_s.map_or(age_s, |known| known.max(age_s)));
        }
    }
    Ok(())
}

/// Which of the entries that wait for a retry comes first on its shard, and when. Behind it waits what must not pass it.
async fn find_first_retries(tx: &Tx, routes: &mut [RouteStatus], now: OffsetDateTime) -> Result<()> {
    let backend = tx.get_database_backend();
    for status in routes.iter_mut().filter(|status| status.retrying > 0) {
        let mut select = Query::select();
        select
            .columns(["event_id", "next_at"])
            .from(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(status.route.as_str()))
            .and_where(Expr::col("shard").eq(i32::try_from(status.shard).unwrap_or(i32::MAX)))
            .and_where(Expr::col("state").eq(Parking::Retry.name()))
            .order_by("id", Order::Asc)
            .limit(1);
        let row = tx.query_one(&select).await;
        let row = row.map_err(|source| Error::db("look for the first retry", source))?;
        let Some(row) = row else { continue };
        status.retry_event = Some(read_uuid(&row, backend, "event_id")?);
        let due_at = read_stamp(&row, backend, "next_at")?;
        status.retry_s = due_at.map(|at| (at - now).as_seconds_f64().max(0.0));
    }
    Ok(())
}

async fn add_down(tx: &Tx, routes: &mut [RouteStatus]) -> Result<()> {
    for down in outage::all(tx).await? {
        let is_this = |status: &&mut RouteStatus| status.route == down.shard.route && status.shard == down.shard.number;
        let is_news = |status: &&mut RouteStatus| !status.is_paused && status.down.is_none();
        if let Some(status) = routes.iter_mut().find(is_this).filter(is_news) {
            status.down = Some(down.reason);
            status.down_side = Some(down.side);
            status.down_s = Some(down.down_s);
            status.probe_s = down.probe_s;
        }
    }
    Ok(())
}

async fn count_dead(tx: &Tx, routes: &mut [RouteStatus]) -> Result<()> {
    for (route, shard, _, rows) in count_states(tx, Table::Failed, &[LetterState::Dead.name()]).await? {
        if let Some(status) = routes
            .iter_mut()
            .find(|status| status.route == route && status.shard == shard)
        {
            status.dead = rows;
        }
    }
    Ok(())
}

/// Counts rows in these states, which an index finds: decided letters may be many.
async fn count_states(tx: &Tx, table: Table, states: &[&str]) -> Result<Vec<(String, u32, String, u64)>> {
    let mut select = Query::select();
    select
        .columns(["route", "shard", "state"])
        .expr_as(Expr::cust("count(*)"), "entries")
        .from(table::named(tx, table))
        .and_where(Expr::col("state").is_in(states.iter().copied()))
        .group_by_columns(["route", "shard", "state"]);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("count entries that wait", source))?;
    rows.iter()
        .map(|row| {
            Ok((
                row.try_get("", "route")?,
                u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
                row.try_get("", "state")?,
                u64::try_from(row.try_get::<i64>("", "entries")?).unwrap_or(0),
            ))
        })
        .collect()
}

async fn count(tx: &Tx, table: Table) -> Result<u64> {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "entries")
        .from(table::named(tx, table));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("count rows", source))?;
    let entries: i64 = row.map_or(Ok(0), |row| row.try_get("", "entries"))?;
    Ok(u64::try_from(entries).unwrap_or(0))
}
