//! Many events at once: the newest, those that wait, and the way of each.

use std::collections::HashMap;

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, SelectStatement};
use uuid::Uuid;

use super::status::cursors;
use super::timeline::{Seen, handled, states};
use super::{Carrier, Delivery, DeliveryState, RouteStatus, Timeline};
use crate::error::{Error, Result};
use crate::event::entry::{Entry, Position};
use crate::store::outbox::{Inspect, Page};
use crate::store::table::{self, Table, read_entry};

/// How far ahead of a cursor is looked for an entry; beyond it everything is ahead.
const AHEAD: usize = 1_000;
/// How many times as far entries that wait are looked for page by page.
const PAGES_MAX: usize = 5;

/// Entries of these types in the log, newest first, at most `limit`. This writes nothing.
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

/// Entries of these types that one of these routes has not delivered, oldest first, at most `limit`: parked, or still ahead of
/// its cursor. This writes nothing.
pub async fn undelivered(
    store: &dyn Inspect,
    types: &[&str],
    carriers: &[Carrier],
    limit: usize,
) -> Result<Vec<Entry>> {
    let tx = table::look(store.db()).await?;
    let lines = cursors(&tx).await?;
    tx.commit().await?;
    let routes: Vec<&str> = carriers.iter().map(|carrier| carrier.route.as_str()).collect();
    let parked = find(store, Table::Parked, |select| {
        select
            .and_where(Expr::col("route").is_in(routes))
            .and_where(Expr::col("state").ne("held"))
            .and_where(of_types(types))
            .order_by("id", Order::Asc)
            .limit(limit as u64);
    });
    let mut waiting: HashMap<Uuid, Entry> = parked.await?.into_iter().map(by_id).collect();
    for line in &lines {
        let Some(carrier) = carriers.iter().find(|carrier| carrier.route == line.route) else {
            continue;
        };
        let is_carried = |event_type: &&str| carrier.filter.matches(event_type);
        let carried: Vec<&str> = types.iter().copied().filter(is_carried).collect();
        if carried.is_empty() {
            continue;
        }
        let shards = shards(&lines, &line.route);
        let is_for = |entry: &Entry| {
            carried.contains(&entry.event.event_type.as_str()) && entry.event.key().shard(shards) == line.shard
        };
        let ahead = ahead_of(store, line.position, &carried, is_for, limit).await?;
        waiting.extend(ahead.into_iter().map(by_id));
    }
    let mut entries: Vec<Entry> = waiting.into_values().collect();
    entries.sort_by_key(|entry| (entry.created_at, entry.id));
    entries.truncate(limit);
    Ok(entries)
}

fn by_id(entry: Entry) -> (Uuid, Entry) {
    (entry.event.id, entry)
}

/// The ways of entries that are in the log, in the same order. This writes nothing.
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
    let unread = store.not_yet_readable(AHEAD).await?;
    let is_unread = |entry: &Entry| unread.iter().any(|other| other.event.id == entry.event.id);
    let delivery = |entry: &Entry, route: &RouteStatus, page: &Page| {
        let at = (route.route.clone(), entry.event.id);
        let is_pending = || !is_archived && (is_ahead(page, entry) || is_unread(entry));
        let Seen {
            state,
            attempts,
            error,
            retry_at,
        } = match parked.get(&at).or_else(|| failed.get(&at)) {
            Some(seen) => seen.clone(),
            None if is_pending() => Seen {
                state: DeliveryState::Pending,
                attempts: None,
                error: route.down.clone(),
                retry_at: None,
            },
            None => Seen {
                state: DeliveryState::Passed,
                attempts: None,
                error: None,
                retry_at: None,
            },
        };
        Delivery {
            route: route.route.clone(),
            state,
            attempts,
            error,
            retry_at,
            handled_at: handled.get(&at).copied(),
        }
    };
    let timeline = |entry: Entry| {
        let key = entry.event.key();
        let lines = routes.iter().zip(&pages);
        let deliveries = lines
            .filter(|(route, _)| key.shard(shards(&routes, &route.route)) == route.shard)
            .map(|(route, page)| delivery(&entry, route, page))
            .collect();
        Timeline {
            entry,
            is_archived,
            deliveries,
        }
    };
    Ok(entries.into_iter().map(timeline).collect())
}

/// Whether a route has not reached an entry yet: it is among what the route would read next, or far beyond.
fn is_ahead(page: &Page, entry: &Entry) -> bool {
    let is_beyond = page.entries.last().is_some_and(|last| last.id < entry.id);
    is_beyond || page.entries.iter().any(|ahead| ahead.id == entry.id)
}

/// Entries that lie ahead of a position and are for a shard, at most `limit`. Nearby the store says which these are; further ahead
/// it would have to read everything else too, and numbers and `types` are order enough: those of other shards take places then.
async fn ahead_of(
    store: &dyn Inspect,
    position: Position,
    types: &[&str],
    is_for: impl Fn(&Entry) -> bool,
    limit: usize,
) -> Result<Vec<Entry>> {
    let (mut position, mut last, mut pages) = (position, 0, 0);
    let mut entries = Vec::new();
    while pages < PAGES_MAX {
        let page = store.read(position, AHEAD).await?;
        entries.extend(page.entries.iter().filter(|entry| is_for(entry)).cloned());
        if page.next == position || entries.len() >= limit {
            entries.truncate(limit);
            return Ok(entries);
        }
        if let Some(entry) = page.entries.last() {
            (last, pages) = (entry.id, pages + 1); // a page may be empty and not be the last
        }
        position = page.next;
    }
    let rest = (limit - entries.len()) as u64;
    let beyond = find(store, Table::Outbox, |select| {
        select
            .and_where(Expr::col("id").gt(last))
            .and_where(of_types(types))
            .order_by("id", Order::Asc)
            .limit(rest);
    });
    entries.extend(beyond.await?.into_iter().filter(is_for));
    Ok(entries)
}

/// Into how many shards a route is cut.
fn shards(lines: &[RouteStatus], route: &str) -> u32 {
    u32::try_from(lines.iter().filter(|line| line.route == route).count()).unwrap_or(1)
}

async fn find(store: &dyn Inspect, table: Table, which: impl FnOnce(&mut SelectStatement)) -> Result<Vec<Entry>> {
    let tx = table::look(store.db()).await?;
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
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
