//! Cursors and leases: how far each route shard has come, and who may work it now.
//!
//! One row per shard holds both. A lease is taken and renewed by the database's clock; each take-over raises the epoch,
//! and every write of progress carries it, so that a holder that was paused and wakes up cannot move anything.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, QueryResult};

use crate::error::{Error, ErrorKind, NextStep, Result};
use crate::event::entry::Position;
use crate::store::db_clock::{db_now, db_now_plus};
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// A route shard: the unit of progress and leases.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    pub(crate) route: String,
    pub(crate) number: u32,
}

/// The right to work a shard, until `deadline` unless renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) epoch: i64,
    /// By this process's monotonic clock, counted from *before* the database was asked: never later than the
    /// database thinks.
    pub(crate) deadline: Instant,
}

/// The row of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub(crate) position: Position,
    pub(crate) epoch: i64,
    pub(crate) is_paused: bool,
    /// Which server answered; see [`table::server`].
    pub(crate) server: String,
}

pub(crate) fn at(shard: &Shard) -> Expr {
    Expr::col("route")
        .eq(shard.route.as_str())
        .and(Expr::col("shard").eq(number(shard)))
}

pub(crate) fn number(shard: &Shard) -> i32 {
    i32::try_from(shard.number).unwrap_or(i32::MAX)
}

/// Whether a route has its rows. Refuses a route whose number of shards has changed, because its keys would change cursors and lose
/// their order.
pub(crate) async fn is_registered(tx: &Tx, route: &str, shards: u32) -> Result<bool> {
    let known = rows(tx, route).await?;
    if known != 0 && known != i64::from(shards) {
        return Err(Error::invalid(format!(
            "route {route:?} has {known} shards in the database and {shards} in the configuration; keep the number, or \
             give the route a new name"
        )));
    }
    Ok(known != 0)
}

/// Makes the rows of a route that is new; another process may do the same at the same time.
pub(crate) async fn register(tx: &Tx, route: &str, shards: u32, start: Position) -> Result<()> {
    for number in 0..shards {
        let mut insert = Query::insert();
        insert
            .into_table(table::named(tx, Table::Cursor))
            .columns(["route", "shard", "position"])
            .values_panic([
                route.into(),
                i32::try_from(number).unwrap_or(i32::MAX).into(),
                start.to_string().into(),
            ])
            .on_conflict(
                OnConflict::columns(["route", "shard"])
                    .do_nothing_on(["route"])
                    .to_owned(),
            );
        tx.execute(&insert)
            .await
            .map_err(|source| Error::db("register the route", source))?;
    }
    Ok(())
}

/// Into how many shards a route is cut.
pub(crate) async fn shards(tx: &Tx, route: &str) -> Result<u32> {
    match rows(tx, route).await? {
        0 => Err(unknown(route)),
        rows => Ok(u32::try_from(rows).unwrap_or(u32::MAX)),
    }
}

async fn rows(tx: &Tx, route: &str) -> Result<i64> {
    let mut count = Query::select();
    count
        .expr_as(Expr::cust("count(*)"), "shards")
        .from(table::named(tx, Table::Cursor))
        .and_where(Expr::col("route").eq(route));
    let row = tx
        .query_one(&count)
        .await
        .map_err(|source| Error::db("look for the route", source))?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "shards"))?)
}

fn unknown(route: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no route {route:?}"))
        .with_next([NextStep::ShowRoutes { route: None }])
}

/// Takes a lease that is free or has run out; `None` when somebody else holds it, or changes its row just now: whoever takes
/// leases has others to renew, and waits for no lock.
pub(crate) async fn take(tx: &Tx, shard: &Shard, owner: &str, ttl: Duration) -> Result<Option<Lease>> {
    let backend = tx.get_database_backend();
    let deadline = Instant::now() + ttl;
    let free = Expr::col("owner")
        .is_null()
        .or(Expr::col("expires_at").lt(db_now(backend)));
    let mut select = Query::select();
    select
        .column("epoch")
        .from(table::named(tx, Table::Cursor))
        .and_where(at(shard))
        .and_where(free.clone())
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    let found = tx.query_one(&select).await;
    if found
        .map_err(|source| Error::db("look for a free lease", source))?
        .is_none()
    {
        return Ok(None);
    }
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("owner", owner)
        .value("epoch", Expr::col("epoch").add(1))
        .value("expires_at", db_now_plus(backend, ttl))
        .and_where(at(shard))
        .and_where(free);
    let taken = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("take a lease", source))?;
    if taken.rows_affected() == 0 {
        return Ok(None);
    }
    let cursor = read(tx, shard).await?;
    Ok(Some(Lease {
        epoch: cursor.epoch,
        deadline,
    }))
}

/// The leases that a renewal has prolonged.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) deadline: Instant,
    pub(crate) shards: HashSet<Shard>,
}

/// Prolongs the leases of this owner, except those whose rows another transaction has locked: one locked row must not keep the
/// other leases from being renewed.
pub(crate) async fn renew(tx: &Tx, owner: &str, ttl: Duration) -> Result<Renewed> {
    let deadline = Instant::now() + ttl;
    let shards = lock_owned(tx, owner).await?;
    let expires_at = db_now_plus(tx.get_database_backend(), ttl);
    set_lease(tx, &shards, Some(owner), expires_at)
        .await
        .map_err(|source| Error::db("renew leases", source))?;
    Ok(Renewed { deadline, shards })
}

/// Gives the leases of this owner back, except those whose rows another transaction has locked.
pub(crate) async fn release(tx: &Tx, owner: &str) -> Result<()> {
    let shards = lock_owned(tx, owner).await?;
    set_lease(tx, &shards, None, Expr::cust("null"))
        .await
        .map_err(|source| Error::db("release leases", source))
}

/// Locks the rows of this owner, except those that are locked already.
async fn lock_owned(tx: &Tx, owner: &str) -> Result<HashSet<Shard>> {
    let mut select = Query::select();
    select
        .columns(["route", "shard"])
        .from(table::named(tx, Table::Cursor))
        .and_where(Expr::col("owner").eq(owner))
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("lock leases", source))?;
    rows.iter().map(read_shard).collect()
}

/// Writes the leases of rows that this transaction has locked. An insert that always conflicts reaches each row by its primary
/// key. An update would look for them with a scan, and on MariaDB from 11.6.2 and on MySQL a scan waits for every locked row.
async fn set_lease(
    tx: &Tx,
    shards: &HashSet<Shard>,
    owner: Option<&str>,
    expires_at: Expr,
) -> std::result::Result<(), DbErr> {
    if shards.is_empty() {
        return Ok(());
    }
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Cursor))
        .columns(["route", "shard", "position", "owner", "expires_at"]);
    for shard in shards {
        insert.values_panic([
            shard.route.as_str().into(),
            number(shard).into(),
            Position::START.to_string().into(), // of a row that would be new
            owner.into(),
            expires_at.clone(),
        ]);
    }
    insert.on_conflict(
        OnConflict::columns(["route", "shard"])
            .update_columns(["owner", "expires_at"])
            .to_owned(),
    );
    tx.execute(&insert).await.map(drop)
}

fn read_shard(row: &QueryResult) -> Result<Shard> {
    Ok(Shard {
        route: row.try_get("", "route")?,
        number: u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
    })
}

/// Every shard with its owner, and whether its lease can be taken.
pub(crate) async fn holders(tx: &Tx) -> Result<Vec<Holder>> {
    let backend = tx.get_database_backend();
    let is_free = Expr::case(
        Expr::col("owner")
            .is_null()
            .or(Expr::col("expires_at").lt(db_now(backend))),
        1,
    )
    .finally(0);
    let mut select = Query::select();
    select
        .columns(["route", "shard", "owner", "epoch"])
        .expr_as(is_free, "is_free")
        .from(table::named(tx, Table::Cursor));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read who holds which lease", source))?;
    rows.iter()
        .map(|row| {
            Ok(Holder {
                shard: read_shard(row)?,
                owner: row.try_get("", "owner")?,
                epoch: row.try_get("", "epoch")?,
                is_free: read_flag(row, "is_free")?,
            })
        })
        .collect()
}

/// Databases disagree on how wide the number of a `case` is.
fn read_flag(row: &QueryResult, column: &str) -> Result<bool> {
    let wide = row.try_get::<i64>("", column);
    Ok(wide.or_else(|_narrow| row.try_get::<i32>("", column).map(i64::from))? != 0)
}

/// A shard and its owner.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) shard: Shard,
    pub(crate) owner: Option<String>,
    pub(crate) epoch: i64,
    pub(crate) is_free: bool,
}

/// Reads a shard's row.
pub(crate) async fn read(tx: &Tx, shard: &Shard) -> Result<Cursor> {
    let mut select = Query::select();
    select
        .columns(["position", "epoch", "is_paused"])
        .expr_as(table::server(tx.get_database_backend()), "server")
        .from(table::named(tx, Table::Cursor))
        .and_where(at(shard));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read a cursor", source))?;
    let row = row.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("route {:?} has no cursor", shard.route)))?;
    Ok(Cursor {
        position: row.try_get::<String>("", "position")?.parse()?,
        epoch: row.try_get("", "epoch")?,
        is_paused: row.try_get("", "is_paused")?,
        server: row.try_get("", "server")?,
    })
}

/// Whether a route is paused now, in one question.
pub(crate) async fn is_paused(db: &impl ConnectionTrait, shard: &Shard) -> Result<bool> {
    let mut select = Query::select();
    select
        .column("is_paused")
        .from(table::named(db, Table::Cursor))
        .and_where(at(shard));
    let row = db.query_one(&select).await;
    let row = row.map_err(|source| Error::db("look whether a route is paused", source))?;
    Ok(row.map_or(Ok(false), |row| row.try_get("", "is_paused"))?)
}

/// Where the shards of a route stand.
pub(crate) async fn positions(tx: &Tx, route: &str) -> Result<Vec<Position>> {
    let mut select = Query::select();
    select
        .column("position")
        .from(table::named(tx, Table::Cursor))
        .and_where(Expr::col("route").eq(route));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read cursors", source))?;
    rows.iter()
        .map(|row| row.try_get::<String>("", "position")?.parse())
        .collect()
}

/// A move of a cursor, under a lease.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) epoch: i64,
    /// The server that the entries were read from. Another one, a standby that took over behind a proxy, may have other entries
    /// under the same numbers.
    pub(crate) server: Arc<str>,
    /// Where it was last seen.
    pub(crate) from: Position,
    pub(crate) to: Position,
    /// Whether a broker feeds the route, as far as its worker knows.
    pub(crate) is_fed: bool,
}

/// Writes progress, if the lease is still ours and the cursor is where it was: this row lock is the fence of everything else in
/// the transaction. A cursor that is elsewhere was set back with its database, by a restore or a standby that knew less.
pub(crate) async fn advance(tx: &Tx, shard: &Shard, step: &Move, delivered: u64) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("position", step.to.to_string())
        .value("settled_at", db_now(backend))
        .value("delivered", plus(delivered))
        .and_where(at(shard))
        .and_where(Expr::col("epoch").eq(step.epoch))
        .and_where(Expr::col("position").eq(step.from.to_string()))
        .and_where(table::server(backend).eq(&*step.server))
        .and_where(match step.is_fed {
            true => Expr::col("fed_by").is_not_null(),
            false => Expr::col("fed_by").is_null(),
        });
    let moved = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("write progress", source))?;
    match moved.rows_affected() {
        0 => Err(stopped(tx, shard, step).await?),
        _ => Ok(()),
    }
}

/// Why a cursor did not move.
async fn stopped(tx: &Tx, shard: &Shard, step: &Move) -> Result<Error> {
    let cursor = read(tx, shard).await?;
    if cursor.epoch != step.epoch {
        return Ok(deposed(shard));
    }
    if *cursor.server != *step.server {
        let says = format!(
            "another database server answers now; route {:?} shard {} goes on from the progress that it has",
            shard.route, shard.number
        );
        return Ok(Error::new(ErrorKind::Conflict, says));
    }
    if cursor.position == step.from {
        let says = format!(
            "route {:?} is fed in another way now; loading its state again",
            shard.route
        );
        return Ok(Error::new(ErrorKind::Conflict, says));
    }
    let says = format!(
        "the cursor of route {:?} shard {} is at {} and not at {}: the database was set back; going on from there",
        shard.route, shard.number, cursor.position, step.from
    );
    Ok(Error::new(ErrorKind::Conflict, says))
}

pub(crate) fn plus(delivered: u64) -> Expr {
    Expr::col("delivered").add(i64::try_from(delivered).unwrap_or(i64::MAX))
}

/// Locks a shard's row, if the lease is still ours.
pub(crate) async fn fence(tx: &Tx, shard: &Shard, epoch: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("is_paused", Expr::col("is_paused"))
        .and_where(at(shard))
        .and_where(Expr::col("epoch").eq(epoch));
    let found = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("lock a cursor", source))?;
    if found.rows_affected() == 0 {
        Err(deposed(shard))
    } else {
        Ok(())
    }
}

fn deposed(shard: &Shard) -> Error {
    let says = format!(
        "another relay has taken over route {:?} shard {}",
        shard.route, shard.number
    );
    Error::new(ErrorKind::Deposed, says)
}

/// Locks the rows of a route, so that what an operator changes and what its relay settles happen one after the other.
pub(crate) async fn lock(tx: &Tx, route: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("is_paused", Expr::col("is_paused"))
        .and_where(Expr::col("route").eq(route));
    let locked = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("lock a route", source))?;
    if locked.rows_affected() == 0 {
        return Err(unknown(route));
    }
    Ok(())
}

/// Pauses or resumes a route.
pub(crate) async fn set_paused(tx: &Tx, route: &str, is_paused: bool) -> Result<()> {
    lock(tx, route).await?;
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("is_paused", is_paused)
        .and_where(Expr::col("route").eq(route));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("pause or resume a route", source))?;
    Ok(())
}

/// Makes every relay look when the transaction has committed: jobs that wait for a signal run, and the workers of this route read
/// their state again.
pub async fn signal(tx: &Tx, route: &str) -> Result<()> {
    signal_numbered(tx, route, 1).await.map(drop)
}

/// The same; answers the first of `count` numbers that nobody has had: greater than all before.
pub(crate) async fn signal_numbered(tx: &Tx, route: &str, count: usize) -> Result<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    change(tx, route, count).await?;
    raise(tx, count).await?;
    let mut select = Query::select();
    select.column("version").from(table::named(tx, Table::Signal));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read the signal", source))?;
    let version: i64 = row.map_or(Ok(count), |row| row.try_get("", "version"))?;
    Ok(version - count)
}

/// Which routes were changed by somebody but their own workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// A number for each route, which grows by as much as the signal.
    routes: HashMap<String, i64>,
    /// How far the signal is beyond all of them together. If that grows, a relay of an older version has signalled, which says not
    /// for which route.
    beyond: i64,
}

impl Changes {
    /// Reads what every route stands at, after the signal was seen at `signal`.
    pub(crate) async fn read(db: &DatabaseConnection, signal: i64) -> Result<Self> {
        let mut select = Query::select();
        select
            .columns(["route", "version"])
            .from(table::named(db, Table::RouteChange));
        let rows = db
            .query_all(&select)
            .await
            .map_err(|source| Error::db("read which routes were changed", source))?;
        let change = |row: &QueryResult| Ok((row.try_get("", "route")?, row.try_get("", "version")?));
        let routes: HashMap<String, i64> = rows.iter().map(change).collect::<Result<_>>()?;
        let beyond = signal - routes.values().sum::<i64>();
        Ok(Self { routes, beyond })
    }

    /// The later reading of the two. Routes are read after the signal, and may have been changed in between: that is seen with the next one.
    #[must_use]
    pub(crate) fn then(&self, later: Self) -> Self {
        let beyond = Ord::max(self.beyond, later.beyond);
        Self { beyond, ..later }
    }

    /// A number that is another one after the route was changed.
    pub(crate) fn version(&self, route: &str) -> i64 {
        self.routes.get(route).copied().unwrap_or(0).wrapping_add(self.beyond)
    }
}

/// Two who change one route do it one after the other, under the lock of its cursor.
async fn change(tx: &Tx, route: &str, by: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::RouteChange))
        .value("version", Expr::col("version").add(by))
        .and_where(Expr::col("route").eq(route));
    let failed = |source| Error::db("write down that a route was changed", source);
    if tx.execute(&update).await.map_err(failed)?.rows_affected() > 0 {
        return Ok(());
    }
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::RouteChange))
        .columns(["route", "version"])
        .values_panic([route.into(), by.into()])
        .on_conflict(OnConflict::column("route").do_nothing_on(["route"]).to_owned());
    tx.execute(&insert).await.map_err(failed)?;
    Ok(())
}

async fn raise(tx: &Tx, by: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Signal))
        .value("version", Expr::col("version").add(by));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("signal the relays", source))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_its_own_route_unless_nobody_says_whose_it_is() {
        let seen = |signal: i64, a: i64, b: i64| Changes {
            routes: HashMap::from([("a".to_owned(), a), ("b".to_owned(), b)]),
            beyond: signal - a - b,
        };
        let check = |then: Changes, expected: (bool, bool)| {
            let known = seen(10, 1, 2);
            let now = known.then(then);
            let is_changed = |route| known.version(route) != now.version(route);
            assert_eq!((is_changed("a"), is_changed("b")), expected);
        };
        check(seen(10, 1, 2), (false, false));
        check(seen(13, 4, 2), (true, false));
        check(seen(12, 1, 2), (true, true)); // an older relay
        check(seen(11, 2, 5), (true, true)); // b was changed after the signal was read
        check(seen(11, 2, 2), (true, false));
    }
}
