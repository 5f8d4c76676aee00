//! Retries of parked events before their time.
//!
//! A retry only makes a row due that waits for its time: it adds no row and removes none. So an event that is being delivered, or
//! that several operators retry at once, is neither lost nor delivered twice by that.

use std::collections::BTreeSet;

use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use serde::Serialize;
use uuid::Uuid;

use super::{audit, timeline};
use crate::error::{Error, ErrorKind, Letters, NextStep, Result};
use crate::state::dead::LetterState;
use crate::state::parked::Parking;
use crate::state::{cursor, outage};
use crate::store::db_clock::{db_now, read_stamp};
use crate::store::outbox::Inspect;
use crate::store::table::{self, Table, read_time, read_uuid, uuid_value};
use crate::store::tx::Tx;

/// A parked event that one route tries now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetriedNow {
    /// The route.
    pub route: String,
    /// How often it was tried before. The retry counts as one more attempt.
    pub attempts: u32,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// How much longer it would have waited. Zero: it was due already, or is being tried at this moment.
    pub early_s: f64,
    /// Whether the route's destination, which was unavailable, is asked now instead of at its next probe.
    pub is_probed: bool,
    /// Whether the route is paused: then it is tried when an operator resumes the route.
    pub is_paused: bool,
}

/// Tries a parked event now, on this route or on all that have parked it, and with it what waits behind it. If the destination is
/// unavailable, it is asked at once, too. An event that waits behind another is refused: the one in front must be retried. Calling
/// this again, or while the event is delivered, changes nothing.
pub async fn retry_now(
    store: &dyn Inspect,
    event_id: Uuid,
    route: Option<&str>,
    actor: &str,
) -> Result<Vec<RetriedNow>> {
    let tx = table::begin_own(store.db()).await?;
    let routes: BTreeSet<String> = rows(&tx, event_id, route)
        .await?
        .into_iter()
        .filter(|row| row.state == Parking::Retry)
        .map(|row| row.route)
        .collect();
    for route in &routes {
        cursor::lock(&tx, route).await?; // after this no worker settles, so what is read now stays
    }
    let mut parked = rows(&tx, event_id, route).await?;
    parked.retain(|row| row.state == Parking::Retry && routes.contains(&row.route));
    if parked.is_empty() {
        tx.rollback().await?;
        return Err(refusal(store, event_id, route).await?);
    }
    let mut retried = Vec::with_capacity(parked.len());
    for row in parked {
        let is_probed = outage::probe_now(&tx, &row.route).await?;
        if row.early_s > 0.0 || is_probed {
            make_due(&tx, event_id, &row.route).await?;
            let detail = serde_json::json!({ "early_s": row.early_s, "attempts": row.attempts, "probe": is_probed });
            let target = format!("{}/{event_id}", row.route);
            audit::record(&tx, actor, "event.retry", &target, &detail).await?;
            cursor::signal(&tx, &row.route).await?;
        }
        retried.push(RetriedNow {
            is_paused: is_paused(&tx, &row.route).await?,
            route: row.route,
            attempts: row.attempts,
            error: row.error,
            early_s: row.early_s,
            is_probed,
        });
    }
    tx.commit().await?;
    Ok(retried)
}

/// A parked row of the event.
#[derive(Debug)]
struct Row {
    route: String,
    shard: i32,
    id: i64,
    state: Parking,
    attempts: u32,
    error: Option<String>,
    early_s: f64,
}

async fn rows(tx: &Tx, event_id: Uuid, route: Option<&str>) -> Result<Vec<Row>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns(["route", "shard", "id", "state", "attempts", "error", "next_at"])
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Parked))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)))
        .order_by("route", Order::Asc);
    if let Some(route) = route {
        select.and_where(Expr::col("route").eq(route));
    }
    let read = |row: &QueryResult| {
        let now = read_time(row, backend, "now")?;
        let next_at = read_stamp(row, backend, "next_at")?;
        Ok(Row {
            route: row.try_get("", "route")?,
            shard: row.try_get("", "shard")?,
            id: row.try_get("", "id")?,
            state: Parking::named(&row.try_get::<String>("", "state")?),
            attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).unwrap_or(0),
            error: row.try_get("", "error")?,
            early_s: next_at.map_or(0.0, |at| (at - now).as_seconds_f64().max(0.0)),
        })
    };
    let found = tx.query_all(&select).await;
    let found = found.map_err(|source| Error::db("look where an event is parked", source))?;
    found.iter().map(read).collect()
}

async fn make_due(tx: &Tx, event_id: Uuid, route: &str) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Parked))
        .value("next_at", db_now(backend))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)))
        .and_where(Expr::col("state").eq(Parking::Retry.name()));
    let made = tx.execute(&update).await;
    made.map(drop)
        .map_err(|source| Error::db("make a parked event due", source))
}

async fn is_paused(tx: &Tx, route: &str) -> Result<bool> {
    let mut select = Query::select();
    select
        .column("is_paused")
        .from(table::named(tx, Table::Cursor))
        .and_where(Expr::col("route").eq(route))
        .limit(1);
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("look whether a route is paused", source))?;
    Ok(row.map_or(Ok(false), |row| row.try_get("", "is_paused"))?)
}

/// Why an event cannot be retried now, and the step that helps.
async fn refusal(store: &dyn Inspect, event_id: Uuid, route: Option<&str>) -> Result<Error> {
    let tx = table::look(store.db()).await?;
    let parked = rows(&tx, event_id, route).await?;
    let refused = match parked.iter().find(|row| row.state == Parking::Wait) {
        Some(waiting) => Some(behind(&tx, event_id, waiting).await?),
        None => is_dead(&tx, event_id, route).await?,
    };
    tx.commit().await?;
    if let Some(refused) = refused {
        return Ok(refused);
    }
    timeline(store, event_id).await?; // there is no such event, or:
    let on = route.map(|route| format!(" on route {route:?}")).unwrap_or_default();
    let says = format!("event {event_id} waits for no retry{on}");
    Ok(Error::new(ErrorKind::Conflict, says).with_next([NextStep::ShowEvent { event_id }]))
}

/// It waits behind another one, which holds its key, or its whole route.
async fn behind(tx: &Tx, event_id: Uuid, waiting: &Row) -> Result<Error> {
    let route = &waiting.route;
    let Some((first, state)) = first_before(tx, event_id, waiting).await? else {
        let says = format!("event {event_id} is next on route {route:?}: it is tried in a moment");
        return Ok(Error::new(ErrorKind::Conflict, says).with_next([NextStep::ShowEvent { event_id }]));
    };
    let says = format!("event {event_id} waits on route {route:?} behind event {first}");
    let held = match state {
        Parking::Held => letter(tx, first, Some(route)).await?,
        Parking::Retry | Parking::Wait => None,
    };
    Ok(match held {
        Some((dead_id, _)) => {
            let letters = Letters::Id(dead_id);
            let says = format!("{says}, which is dead letter {dead_id}");
            Error::new(ErrorKind::Conflict, says).with_next([NextStep::Retry { letters }])
        }
        None => Error::new(ErrorKind::Conflict, says).with_next([NextStep::RetryNow { event_id: first }]),
    })
}

/// The row in front of this one: of its key, or else the first of the shard, which is what a strict route waits for.
async fn first_before(tx: &Tx, event_id: Uuid, waiting: &Row) -> Result<Option<(Uuid, Parking)>> {
    let backend = tx.get_database_backend();
    let in_front = |select: &mut SelectStatement| {
        select
            .columns(["event_id", "state"])
            .from(table::named(tx, Table::Parked))
            .and_where(Expr::col("route").eq(waiting.route.as_str()))
            .and_where(Expr::col("shard").eq(waiting.shard))
            .and_where(Expr::col("state").ne(Parking::Wait.name()))
            .order_by("id", Order::Asc)
            .limit(1);
    };
    let mut key = Query::select();
    key.columns(["aggregate_type", "aggregate_id"])
        .from(table::named(tx, Table::Parked))
        .and_where(Expr::col("route").eq(waiting.route.as_str()))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)));
    let mut of_key = Query::select();
    in_front(&mut of_key);
    of_key
        .and_where(Expr::col("id").lt(waiting.id))
        .and_where(Expr::tuple([Expr::col("aggregate_type"), Expr::col("aggregate_id")]).in_subquery(key));
    let mut of_shard = Query::select();
    in_front(&mut of_shard);
    for select in [of_key, of_shard] {
        let row = tx.query_one(&select).await;
        let row = row.map_err(|source| Error::db("look what an event waits for", source))?;
        if let Some(row) = row {
            let state = Parking::named(&row.try_get::<String>("", "state")?);
            return Ok(Some((read_uuid(&row, backend, "event_id")?, state)));
        }
    }
    Ok(None)
}

/// It was given up: an operator decides on the dead letter.
async fn is_dead(tx: &Tx, event_id: Uuid, route: Option<&str>) -> Result<Option<Error>> {
    let refused = |(dead_id, of): (i64, String)| {
        let letters = Letters::Id(dead_id);
        let says = format!("event {event_id} is dead letter {dead_id} of route {of:?}");
        Error::new(ErrorKind::Conflict, says).with_next([NextStep::Retry { letters }])
    };
    Ok(letter(tx, event_id, route).await?.map(refused))
}

/// The dead letter of an event that waits for a decision, and its route.
async fn letter(tx: &Tx, event_id: Uuid, route: Option<&str>) -> Result<Option<(i64, String)>> {
    let mut select = Query::select();
    select
        .columns(["dead_id", "route"])
        .from(table::named(tx, Table::Failed))
        .and_where(Expr::col("event_id").eq(uuid_value(tx.get_database_backend(), event_id)))
        .and_where(Expr::col("state").eq(LetterState::Dead.name()))
        .order_by("dead_id", Order::Asc)
        .limit(1);
    if let Some(route) = route {
        select.and_where(Expr::col("route").eq(route));
    }
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("look for a dead letter", source))?;
    row.map(|row| Ok((row.try_get("", "dead_id")?, row.try_get("", "route")?)))
        .transpose()
}
