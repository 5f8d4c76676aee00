//! Forgets a route that is not in use any more. Until then, retention keeps the entries that the route has not read.

use std::time::{Duration, Instant};

use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use serde::Serialize;

use super::{Carrier, audit, replay, signal, status};
use crate::error::{Error, ErrorKind, Result};
use crate::event::entry::Position;
use crate::state::cursor::{self, Shard};
use crate::state::dead::LetterState;
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// Entries that are counted at once.
const PAGE: usize = 1_000;
/// How long entries are counted before a route is given up.
const COUNT_TIME: Duration = Duration::from_secs(5);

/// Whether a route has progress in the store, and whether a relay works it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store does not know it.
    Unknown,
    /// A relay holds a lease of it.
    Worked,
    /// No relay holds a lease of it.
    Free {
        /// How often its leases have changed hands. A route that was worked meanwhile has another number.
        epochs: i64,
    },
}

/// The entries that a route had not delivered when it was retired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GivenUp {
    /// Entries that it had not read.
    pub unread: u64,
    /// Whether all of those were counted. Counting ends after five seconds.
    pub is_exact: bool,
    /// Entries that waited for a retry, or behind one on their key.
    pub parked: u64,
    /// Dead letters that wait for a decision. They stay.
    pub dead: u64,
}

/// Whether a relay works a route. This writes nothing.
pub async fn standing(outbox: &dyn Outbox, route: &str) -> Result<Standing> {
    let tx = table::look(outbox.db()).await?;
    let standing = look(&tx, route).await?;
    tx.commit().await?;
    Ok(standing)
}

async fn look(tx: &Tx, route: &str) -> Result<Standing> {
    let cursors = status::cursors(tx).await?;
    let shards: Vec<_> = cursors.iter().filter(|row| row.route == route).collect();
    Ok(match shards.as_slice() {
        [] => Standing::Unknown,
        shards if shards.iter().any(|row| row.is_leased) => Standing::Worked,
        shards => Standing::Free {
            epochs: shards.iter().map(|row| row.epoch).sum(),
        },
    })
}

/// Forgets a route that no relay works any more: its progress, and what it has parked. Its dead letters and its subscriber's
/// inbox rows stay. Fails if a relay holds a lease of the route. A route that is added again later
/// begins as a new one.
pub async fn forget(outbox: &dyn Outbox, route: &str, actor: &str) -> Result<()> {
    let tx = table::begin_own(outbox.db()).await?;
    let parked = remove(&tx, route, None).await?;
    let detail = serde_json::json!({ "parked": parked });
    audit::record(&tx, actor, "route.forget", route, &detail).await?;
    signal(&tx, route).await?;
    tx.commit().await
}

/// Forgets a route that was switched off, as [`forget`] does, and counts what it leaves undelivered. The operators' log has the
/// numbers. Fails also if a relay has worked the route since it had these `epochs` ([`Standing::Free`]).
pub async fn retire(outbox: &dyn Outbox, carrier: &Carrier, epochs: i64, actor: &str) -> Result<GivenUp> {
    // Counted before anything is locked: a route that no relay works stands still.
    let (unread, is_exact) = count_unread(outbox, carrier).await?;
    let tx = table::begin_own(outbox.db()).await?;
    let given_up = GivenUp {
        unread,
        is_exact,
        parked: remove(&tx, &carrier.route, Some(epochs)).await?,
        dead: count_dead(&tx, &carrier.route).await?,
    };
    let detail = serde_json::to_value(given_up)?;
    audit::record(&tx, actor, "route.retire", &carrier.route, &detail).await?;
    signal(&tx, &carrier.route).await?;
    tx.commit().await?;
    Ok(given_up)
}

/// Removes the rows of a route and ends its replays; returns how many entries it had parked.
async fn remove(tx: &Tx, route: &str, expected: Option<i64>) -> Result<u64> {
    cursor::lock(tx, route).await?;
    let is_worked = match look(tx, route).await? {
        Standing::Worked => true,
        Standing::Free { epochs } => expected.is_some_and(|expected| expected != epochs),
        Standing::Unknown => false,
    };
    if is_worked {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("route {route:?} is worked by a relay; stop that relay, or wait until its lease has run out"),
        ));
    }
    let parked = delete(tx, Table::Parked, route).await?;
    delete(tx, Table::Down, route).await?;
    delete(tx, Table::Cursor, route).await?;
    replay::cancel_of(tx, route).await?;
    Ok(parked)
}

async fn delete(tx: &Tx, table: Table, route: &str) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, table))
        .and_where(Expr::col("route").eq(route));
    let deleted = tx.execute(&delete).await;
    let deleted = deleted.map_err(|source| Error::db("forget a route", source))?;
    Ok(deleted.rows_affected())
}

/// How many entries the route has not read, and whether all of them were counted.
async fn count_unread(outbox: &dyn Outbox, carrier: &Carrier) -> Result<(u64, bool)> {
    outbox.pulse().await?; // also what was committed while no relay ran
    let begun = Instant::now();
    let positions = positions(outbox, &carrier.route).await?;
    let shards = u32::try_from(positions.len()).unwrap_or(u32::MAX);
    let mut unread = 0;
    for (number, mut position) in positions {
        loop {
            let page = outbox.read(position, PAGE).await?;
            let is_its_own = |key: u32| shards <= 1 || key == number;
            let own = page.entries.iter().filter(|entry| {
                carrier.filter.matches(&entry.event.event_type) && is_its_own(entry.event.key().shard(shards))
            });
            unread += own.count() as u64;
            if page.next == position {
                break;
            }
            if begun.elapsed() > COUNT_TIME {
                return Ok((unread, false));
            }
            position = page.next;
        }
    }
    Ok((unread, true))
}

async fn positions(outbox: &dyn Outbox, route: &str) -> Result<Vec<(u32, Position)>> {
    let tx = table::look(outbox.db()).await?;
    let mut positions = Vec::new();
    for number in 0..cursor::shards(&tx, route).await? {
        let shard = Shard {
            route: route.to_owned(),
            number,
        };
        positions.push((number, cursor::read(&tx, &shard).await?.position));
    }
    tx.commit().await?;
    Ok(positions)
}

async fn count_dead(tx: &Tx, route: &str) -> Result<u64> {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "letters")
        .from(table::named(tx, Table::Failed))
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("state").eq(LetterState::Dead.name()));
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("count the dead letters of a route", source))?;
    let letters: i64 = row.map_or(Ok(0), |row| row.try_get("", "letters"))?;
    Ok(u64::try_from(letters).unwrap_or_default())
}
