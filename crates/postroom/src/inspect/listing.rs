//! Many events at once: the newest, those that wait, and the way of each.

use std::collections::HashMap;

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use uuid::Uuid;

use super::{RouteStatus, Step, Timeline, cursors, handled, states};
use crate::error::{Error, Result};
use crate::outbox::{Entry, Inspect, Page};
use crate::table::{self, Table, event_exprs, read_entry};

/// How far ahead of a cursor is looked for an entry; beyond it everything is ahead.
const AHEAD: usize = 1_000;

/// Entries of these types in the log, newest first, at most `limit`.
pub async fn newest(store: &dyn Inspect, types: &[&str], limit: usize) -> Result<Vec<Entry>> {
    let mut entries = find(store, Table::Outbox, |select| {
        select
            .and_where(of_types(types))
            .order_by("id", Order::Desc)
            .limit(limit as u64);
    })
    .await?;
    entries.truncate(limit);
    Ok(entries)
}

/// Entries of these types that a route of those asked for has not delivered, oldest first, at most `limit`: parked, or still
/// ahead of its cursor.
pub async fn undelivered(
    store: &dyn Inspect,
    types: &[&str],
    is_asked: impl Fn(&str) -> bool,
    limit: usize,
) -> Result<Vec<Entry>> {
    let tx = table::look(store.db()).await?;
    let routes = cursors(&tx).await?;
    tx.commit().await?;
    let mut waiting: HashMap<Uuid, Entry> = HashMap::new();
    for route in routes.iter().filter(|route| is_asked(&route.route)) {
        let parked = find(store, Table::Parked, |select| {
            select
                .and_where(Expr::col("route").eq(route.route.as_str()))
                .and_where(Expr::col("state").ne("held"))
                .and_where(of_types(types))
                .order_by("id", Order::Asc)
                .limit(limit as u64);
        });
        let mut entries = parked.await?;
        entries.extend(ahead(store, route, types, limit).await?);
        waiting.extend(entries.into_iter().map(|entry| (entry.event.id, entry)));
    }
    let mut entries: Vec<Entry> = waiting.into_values().collect();
    entries.sort_by_key(|entry| (entry.created_at, entry.id));
    entries.truncate(limit);
    Ok(entries)
}

/// The ways of entries that are in the log, in the same order.
pub async fn timelines(store: &dyn Inspect, entries: Vec<Entry>) -> Result<Vec<Timeline>> {
    trace(store, entries, false).await
}

/// The ways of entries.
pub(super) async fn trace(store: &dyn Inspect, entries: Vec<Entry>, is_archived: bool) -> Result<Vec<Timeline>> {
    let ids: Vec<Uuid> = entries.iter().map(|entry| entry.event.id).collect();
    let tx = table::look(store.db()).await?;
    let routes = cursors(&tx).await?;
    let handled = handled(&tx, &routes, &ids).await?;
    let parked = states(&tx, Table::Parked, &ids).await?;
    let failed = states(&tx, Table::Failed, &ids).await?;
    tx.commit().await?;
    let mut pages = Vec::with_capacity(routes.len());
    for route in &routes {
        pages.push(store.read(route.position, AHEAD).await?);
    }
    let step = |entry: &Entry, route: &RouteStatus, page: &Page| {
        let at = (route.route.clone(), entry.event.id);
        let (state, attempts, error) = match parked.get(&at).or_else(|| failed.get(&at)).cloned() {
            Some(seen) => seen,
            None if !is_archived && is_ahead(page, entry) => ("pending".to_owned(), None, None),
            None => ("passed".to_owned(), None, None),
        };
        Step {
            route: route.route.clone(),
            state,
            attempts,
            error,
            handled_at: handled.get(&at).copied(),
        }
    };
    let shards = |route: &str| u32::try_from(routes.iter().filter(|row| row.route == route).count()).unwrap_or(1);
    let timeline = |entry: Entry| {
        let key = entry.event.key();
        let lines = routes.iter().zip(&pages);
        let steps = lines
            .filter(|(route, _)| key.shard(shards(&route.route)) == route.shard)
            .map(|(route, page)| step(&entry, route, page))
            .collect();
        Timeline {
            entry,
            is_archived,
            steps,
        }
    };
    Ok(entries.into_iter().map(timeline).collect())
}

/// Whether a route has not reached an entry yet: it is among what the route would read next, or far beyond.
fn is_ahead(page: &Page, entry: &Entry) -> bool {
    let is_beyond = page.entries.last().is_some_and(|last| last.id < entry.id);
    is_beyond || page.entries.iter().any(|ahead| ahead.id == entry.id)
}

/// What a route would read next, of these types.
async fn ahead(store: &dyn Inspect, route: &RouteStatus, types: &[&str], limit: usize) -> Result<Vec<Entry>> {
    let (mut position, mut entries) = (route.position, Vec::new());
    while entries.len() < limit {
        let page = store.read(position, AHEAD).await?;
        let wanted = page
            .entries
            .iter()
            .filter(|entry| types.contains(&entry.event.event_type.as_str()));
        entries.extend(wanted.cloned());
        if page.next == position {
            break;
        }
        position = page.next;
    }
    Ok(entries)
}

async fn find(store: &dyn Inspect, table: Table, which: impl FnOnce(&mut SelectStatement)) -> Result<Vec<Entry>> {
    let tx = table::look(store.db()).await?;
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    for (expr, column) in event_exprs(backend) {
        select.expr_as(expr, column);
    }
    select.columns(["id", "created_at"]).from(table::named(&tx, table));
    which(&mut select);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look for events", source))?;
    tx.commit().await?;
    rows.iter().map(|row| read_entry(row, backend, "id")).collect()
}

fn of_types(types: &[&str]) -> Expr {
    Expr::col("event_type").is_in(types.iter().copied())
}
