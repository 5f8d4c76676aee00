//! Looking: where every route stands, where an event has got to, and what holds things up.

mod audit;
pub mod dead;
mod failure;
mod listing;
mod reason;
pub mod replay;

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::entry::{Entry, Position};
use crate::job::{self, JobStatus};
use crate::policy::filter::Filter;
use crate::state::{cursor, outage};
use crate::store::db_clock::{db_now, read_stamp};
use crate::store::outbox::Inspect;
use crate::store::table::{self, Table, read_entry, read_event, read_time, read_uuid, uuid_value};
use crate::store::tx::Tx;

pub use failure::{Failures, failures};
pub use listing::{newest, timelines, undelivered};
pub use reason::{Reason, What, reach, why};

/// Everything there is to see at a glance.
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
    /// Who works it.
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
    /// Dead letters that hold their key.
    pub held: u64,
    /// Dead letters that nobody has decided on.
    pub dead: u64,
    /// Why it cannot go on: its destination, or the broker that feeds it, is out of reach.
    pub down: Option<String>,
    /// For how long.
    pub down_s: Option<f64>,
    /// When progress was last written.
    #[serde(with = "time::serde::rfc3339::option")]
    pub settled_at: Option<OffsetDateTime>,
    #[serde(skip)]
    position: Position,
}

/// The way of one event.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The event as it was recorded.
    pub entry: Entry,
    /// Whether it has left the outbox for the archive.
    pub is_archived: bool,
    /// What each route has done with it.
    pub steps: Vec<Step>,
}

/// What one route has done with an event.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The route.
    pub route: String,
    /// `pending`, `parked`, `waiting`, `held`, `dead`, `retried`, `discarded` or `passed` (delivered, or not for this route).
    pub state: String,
    /// How often it was tried, where it failed.
    pub attempts: Option<u32>,
    /// What went wrong last, or why the route cannot go on.
    pub error: Option<String>,
    /// When its subscriber handled it, by the inbox.
    #[serde(with = "time::serde::rfc3339::option")]
    pub handled_at: Option<OffsetDateTime>,
}

/// An event that waits for its time.
#[derive(Clone, Debug, Serialize)]
pub struct Scheduled {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// When it enters the outbox.
    #[serde(with = "time::serde::rfc3339")]
    pub due_at: OffsetDateTime,
}

/// A route, and which events it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Its name.
    pub route: String,
    /// Which events.
    pub filter: Filter,
}

/// How many, in words that fit: `1 entry`, `2 entries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Where every route stands.
pub async fn status(store: &dyn Inspect) -> Result<Status> {
    let tx = table::look(store.db()).await?;
    let mut routes = cursors(&tx).await?;
    count_parked(&tx, &mut routes).await?;
    count_dead(&tx, &mut routes).await?;
    let jobs = job::statuses(&tx).await?;
    let scheduled = count(&tx, Table::Scheduled).await?;
    let now = now(&tx).await?;
    measure_parked(&tx, &mut routes, now).await?;
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

/// Pauses or resumes a route, on whichever process works it.
pub async fn set_paused(store: &dyn Inspect, route: &str, is_paused: bool, actor: &str) -> Result<()> {
    let tx = table::begin_own(store.db()).await?;
    cursor::set_paused(&tx, route, is_paused).await?;
    let action = if is_paused { "route.pause" } else { "route.resume" };
    audit::record(&tx, actor, action, route, &serde_json::json!({})).await?;
    cursor::signal(&tx, route).await?;
    tx.commit().await?;
    Ok(())
}

/// Forgets a route that nobody works any more: its progress, and what it has parked. Its dead letters and its subscriber's
/// inbox rows stay. A route that is leased is refused; one that comes back later begins anew.
pub async fn forget(store: &dyn Inspect, route: &str, actor: &str) -> Result<()> {
    let tx = table::begin_own(store.db()).await?;
    cursor::lock(&tx, route).await?;
    if cursors(&tx)
        .await?
        .iter()
        .any(|row| row.route == route && row.is_leased)
    {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("route {route:?} is worked by a relay; stop that relay, or wait until its lease has run out"),
        ));
    }
    for table in [Table::Parked, Table::Down, Table::Cursor] {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(&tx, table))
            .and_where(Expr::col("route").eq(route));
        tx.execute(&delete)
            .await
            .map_err(|source| Error::db("forget a route", source))?;
    }
    replay::cancel_of(&tx, route).await?;
    audit::record(&tx, actor, "route.forget", route, &serde_json::json!({})).await?;
    cursor::signal(&tx, route).await?;
    tx.commit().await?;
    Ok(())
}

/// The way of one event, or `NotFound`; see [`scheduled`] for one whose time has not come.
pub async fn timeline(store: &dyn Inspect, event_id: Uuid) -> Result<Timeline> {
    let gone = || Error::new(ErrorKind::NotFound, format!("no event {event_id} is kept here"));
    let tx = table::look(store.db()).await?;
    // MySQL's writers insert elsewhere; a sequencer moves the rows into the log.
    let incoming = (tx.get_database_backend() == DbBackend::MySql).then_some(Table::Incoming);
    let mut found = None;
    for table in incoming.into_iter().chain([Table::Outbox, Table::Audit]) {
        if found.is_none() {
            let is_archived = matches!(table, Table::Audit);
            found = find(&tx, table, event_id).await?.map(|entry| (entry, is_archived));
        }
    }
    tx.commit().await?;
    let (entry, is_archived) = found.ok_or_else(gone)?;
    let mut timelines = listing::trace(store, vec![entry], is_archived).await?;
    timelines.pop().ok_or_else(gone)
}

/// An event that waits for its time, if it does.
pub async fn scheduled(store: &dyn Inspect, event_id: Uuid) -> Result<Option<Scheduled>> {
    let tx = table::look(store.db()).await?;
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .column("due_at")
        .from(table::named(&tx, Table::Scheduled))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look at the schedule", source))?;
    tx.commit().await?;
    let read = |row: QueryResult| {
        Ok(Scheduled {
            event: read_event(&row, backend)?,
            due_at: read_time(&row, backend, "due_at")?,
        })
    };
    row.map(read).transpose()
}

async fn cursors(tx: &Tx) -> Result<Vec<RouteStatus>> {
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
                held: 0,
                dead: 0,
                down: None,
                down_s: None,
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

async fn add_down(tx: &Tx, routes: &mut [RouteStatus]) -> Result<()> {
    for down in outage::all(tx).await? {
        let is_this = |status: &&mut RouteStatus| status.route == down.shard.route && status.shard == down.shard.number;
        let is_news = |status: &&mut RouteStatus| !status.is_paused && status.down.is_none();
        if let Some(status) = routes.iter_mut().find(is_this).filter(is_news) {
            status.down = Some(down.reason);
            status.down_s = Some(down.down_s);
        }
    }
    Ok(())
}

async fn count_dead(tx: &Tx, routes: &mut [RouteStatus]) -> Result<()> {
    for (route, shard, _, rows) in count_states(tx, Table::Failed, &["dead"]).await? {
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

async fn now(tx: &Tx) -> Result<OffsetDateTime> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select.expr_as(db_now(backend), "now");
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read the database's clock", source))?;
    row.map_or_else(
        || Err(Error::new(ErrorKind::Failed, "the database has no clock")),
        |row| read_time(&row, backend, "now"),
    )
}

async fn find(tx: &Tx, table: Table, event_id: Uuid) -> Result<Option<Entry>> {
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .columns(["id", "created_at"])
        .from(table::named(tx, table))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)))
        .limit(1);
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look for an event", source))?;
    row.map(|row| read_entry(&row, backend, "id")).transpose()
}

type Seen = (String, Option<u32>, Option<String>);

/// A route and an event.
type At = (String, Uuid);

async fn states(tx: &Tx, table: Table, event_ids: &[Uuid]) -> Result<HashMap<At, Seen>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns(["route", "event_id", "state", "attempts", "error"])
        .from(table::named(tx, table))
        .and_where(Expr::col("event_id").is_in(event_ids.iter().map(|id| uuid_value(backend, *id))));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look where an event waits", source))?;
    rows.iter()
        .map(|row| {
            let state: String = row.try_get("", "state")?;
            let state = match state.as_str() {
                "retry" => "parked".to_owned(),
                "wait" => "waiting".to_owned(),
                _ => state,
            };
            let attempts = u32::try_from(row.try_get::<i32>("", "attempts")?).ok();
            let at = (row.try_get("", "route")?, read_uuid(row, backend, "event_id")?);
            Ok((at, (state, attempts, row.try_get("", "error")?)))
        })
        .collect()
}

async fn handled(tx: &Tx, routes: &[RouteStatus], event_ids: &[Uuid]) -> Result<HashMap<At, OffsetDateTime>> {
    let of_event = |id: &Uuid| {
        let id = *id;
        routes.iter().map(move |route| format!("{}:{id}", route.route))
    };
    let keys: Vec<String> = event_ids.iter().flat_map(of_event).collect();
    let mut select = Query::select();
    select
        .columns(["idempotency_key", "handled_at"])
        .from(table::named(tx, Table::Handled))
        .and_where(Expr::col("idempotency_key").is_in(keys));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look into the inbox", source))?;
    let mut handled = HashMap::new();
    for row in &rows {
        let key: String = row.try_get("", "idempotency_key")?;
        let at = key.rsplit_once(':').map(|(route, id)| (route, Uuid::try_parse(id)));
        if let Some((route, Ok(id))) = at {
            let handled_at = read_time(row, tx.get_database_backend(), "handled_at")?;
            handled.insert((route.to_owned(), id), handled_at);
        }
    }
    Ok(handled)
}
