//! Cursors and leases: how far each route shard has come, and who may work it now.
//!
//! One row per shard holds both. A lease is taken and renewed by the database's clock; each take-over raises the epoch,
//! and every write of progress carries it, so that a holder that was paused and wakes up cannot move anything.

use std::time::{Duration, Instant};

use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction, QueryResult};

use crate::clock::{db_now, db_now_plus};
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::Position;
use crate::table::{self, Table};

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

/// What a shard's row says.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub(crate) position: Position,
    pub(crate) epoch: i64,
    pub(crate) is_paused: bool,
}

fn at(shard: &Shard) -> Expr {
    Expr::col("route")
        .eq(shard.route.as_str())
        .and(Expr::col("shard").eq(number(shard)))
}

pub(crate) fn number(shard: &Shard) -> i32 {
    i32::try_from(shard.number).unwrap_or(i32::MAX)
}

/// Makes the rows of a route that is new; refuses a route whose number of shards has changed, because its keys would
/// change cursors and lose their order.
pub(crate) async fn register(tx: &DatabaseTransaction, route: &str, shards: u32, start: Position) -> Result<()> {
    let known = rows(tx, route).await?;
    if known != 0 && known != i64::from(shards) {
        return Err(Error::invalid(format!(
            "route {route:?} has {known} shards in the database and {shards} in the configuration; keep the number, or \
             give the route a new name"
        )));
    }
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
pub(crate) async fn shards(tx: &DatabaseTransaction, route: &str) -> Result<u32> {
    match rows(tx, route).await? {
        0 => Err(unknown(route)),
        rows => Ok(u32::try_from(rows).unwrap_or(u32::MAX)),
    }
}

async fn rows(tx: &DatabaseTransaction, route: &str) -> Result<i64> {
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
    Error::new(
        ErrorKind::NotFound,
        format!("there is no route {route:?}; `postroom status` lists them"),
    )
}

/// Takes a lease that is free or has run out; `None` when somebody else holds it, or changes its row just now: whoever takes
/// leases has others to renew, and waits for no lock.
pub(crate) async fn take(tx: &DatabaseTransaction, shard: &Shard, owner: &str, ttl: Duration) -> Result<Option<Lease>> {
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

/// Prolongs every lease of this owner in one statement; answers the new deadline, and for how many.
pub(crate) async fn renew(tx: &DatabaseTransaction, owner: &str, ttl: Duration) -> Result<(Instant, u64)> {
    let deadline = Instant::now() + ttl;
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("expires_at", db_now_plus(tx.get_database_backend(), ttl))
        .and_where(Expr::col("owner").eq(owner));
    let renewed = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("renew leases", source))?;
    Ok((deadline, renewed.rows_affected()))
}

/// Gives every lease of this owner back.
pub(crate) async fn release(tx: &DatabaseTransaction, owner: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("owner", Option::<String>::None)
        .value("expires_at", Expr::cust("null"))
        .and_where(Expr::col("owner").eq(owner));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("release leases", source))?;
    Ok(())
}

/// Who holds what: every shard with its owner, and whether its lease can be taken.
pub(crate) async fn holders(tx: &DatabaseTransaction) -> Result<Vec<Holder>> {
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
                shard: Shard {
                    route: row.try_get("", "route")?,
                    number: u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
                },
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
pub(crate) async fn read(tx: &DatabaseTransaction, shard: &Shard) -> Result<Cursor> {
    let mut select = Query::select();
    select
        .columns(["position", "epoch", "is_paused"])
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
    })
}

/// Where the shards of a route stand.
pub(crate) async fn positions(tx: &DatabaseTransaction, route: &str) -> Result<Vec<Position>> {
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) epoch: i64,
    /// Where it was last seen.
    pub(crate) from: Position,
    pub(crate) to: Position,
}

/// Writes progress, if the lease is still ours and the cursor is where it was: this row lock is the fence of everything else in
/// the transaction. A cursor that is elsewhere was set back with its database, by a restore or a standby that knew less.
pub(crate) async fn advance(tx: &DatabaseTransaction, shard: &Shard, step: Move, delivered: u64) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("position", step.to.to_string())
        .value("settled_at", db_now(backend))
        .value("delivered", plus(delivered))
        .and_where(at(shard))
        .and_where(Expr::col("epoch").eq(step.epoch))
        .and_where(Expr::col("position").eq(step.from.to_string()));
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
async fn stopped(tx: &DatabaseTransaction, shard: &Shard, step: Move) -> Result<Error> {
    let cursor = read(tx, shard).await?;
    if cursor.epoch != step.epoch {
        return Ok(deposed(shard));
    }
    let says = format!(
        "the cursor of route {:?} shard {} is at {} and not at {}: the database was set back; going on from there",
        shard.route, shard.number, cursor.position, step.from
    );
    Ok(Error::new(ErrorKind::Conflict, says))
}

/// Counts what a route that a broker feeds has delivered: its progress is the broker's to keep.
pub(crate) async fn count(tx: &DatabaseTransaction, shard: &Shard, delivered: u64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .value("delivered", plus(delivered))
        .and_where(at(shard));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("count what was delivered", source))?;
    Ok(())
}

fn plus(delivered: u64) -> Expr {
    Expr::col("delivered").add(i64::try_from(delivered).unwrap_or(i64::MAX))
}

/// Locks a shard's row, if the lease is still ours.
pub(crate) async fn fence(tx: &DatabaseTransaction, shard: &Shard, epoch: i64) -> Result<()> {
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
pub(crate) async fn lock(tx: &DatabaseTransaction, route: &str) -> Result<()> {
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
pub(crate) async fn set_paused(tx: &DatabaseTransaction, route: &str, is_paused: bool) -> Result<()> {
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

/// Makes every relay look at what was changed.
pub(crate) async fn signal(tx: &DatabaseTransaction) -> Result<()> {
    raise(tx, 1).await
}

/// Makes every relay look, and answers the first of `count` numbers that nobody has had: greater than all before.
pub(crate) async fn signal_numbered(tx: &DatabaseTransaction, count: usize) -> Result<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
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

async fn raise(tx: &DatabaseTransaction, by: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Signal))
        .value("version", Expr::col("version").add(by));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("signal the relays", source))?;
    Ok(())
}
