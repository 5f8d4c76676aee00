//! Outages: why a route cannot reach its destination or its broker. Operators read the reason in the store.

use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::state::cursor::{self, Shard};
use crate::store::db_clock::{db_now, db_now_minus, db_now_plus, read_stamp};
use crate::store::table::{self, Table, read_time, storable};
use crate::store::tx::Tx;

/// A consumer writes down each of its attempts; one that has not for so long is gone, and another may work.
const FEED_MAX: Duration = Duration::from_secs(120);

/// Which end of a route is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The destination that it delivers to.
    Delivery,
    /// The broker that feeds it.
    Feed,
}

/// An end that is out of reach.
#[derive(Clone, Debug)]
pub(crate) struct Down {
    pub(crate) shard: Shard,
    pub(crate) side: Side,
    pub(crate) reason: String,
    /// For how long.
    pub(crate) down_s: f64,
    /// How long until it is asked again, if the store keeps that; zero when that is due.
    pub(crate) probe_s: Option<f64>,
}

/// The outage of one side of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) reason: String,
    /// How long until it is asked again, if the store keeps that; zero when that is due.
    pub(crate) probe_in: Option<Duration>,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Feed => "feed",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "feed" => Self::Feed,
            _ => Self::Delivery,
        }
    }
}

fn at(shard: &Shard, side: Side) -> Expr {
    Expr::col("route")
        .eq(shard.route.as_str())
        .and(Expr::col("shard").eq(cursor::number(shard)))
        .and(Expr::col("side").eq(side.name()))
}

/// Writes down why, that it is so now, and since when if that is not known yet.
pub(crate) async fn record(tx: &Tx, shard: &Shard, side: Side, reason: &str) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Down))
        .columns(["route", "shard", "side", "reason", "since", "seen_at"])
        .values_panic([
            shard.route.as_str().into(),
            cursor::number(shard).into(),
            side.name().into(),
            storable(reason).into(),
            db_now(backend),
            db_now(backend),
        ])
        .on_conflict(
            OnConflict::columns(["route", "shard", "side"])
                .update_columns(["reason", "seen_at"])
                .to_owned(),
        );
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("write down what is out of reach", source))?;
    Ok(())
}

/// It can be reached again.
pub(crate) async fn clear(tx: &Tx, shard: &Shard, side: Side) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Down))
        .and_where(at(shard, side));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("forget what was out of reach", source))?;
    Ok(())
}

/// Writes down when a destination that is out of reach is asked again. None: its relay decides that by itself.
pub(crate) async fn plan_probe(tx: &Tx, shard: &Shard, wait: Option<Duration>) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Down))
        .value(
            "probe_at",
            wait.map_or_else(Expr::null, |wait| db_now_plus(backend, wait)),
        )
        .and_where(at(shard, Side::Delivery));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("plan a probe", source))?;
    Ok(())
}

/// Makes the next probe of a route's destination due now. Answers whether one was waited for.
pub(crate) async fn probe_now(tx: &Tx, route: &str) -> Result<bool> {
    let now = db_now(tx.get_database_backend());
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Down))
        .value("probe_at", now.clone())
        .and_where(Expr::col("route").eq(route))
        .and_where(Expr::col("side").eq(Side::Delivery.name()))
        .and_where(Expr::col("probe_at").gt(now));
    let changed = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("make a probe due", source))?;
    Ok(changed.rows_affected() > 0)
}

/// The recorded outage of this side.
pub(crate) async fn read(tx: &Tx, shard: &Shard, side: Side) -> Result<Option<Recorded>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns(["reason", "probe_at"])
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Down))
        .and_where(at(shard, side));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read what is out of reach", source))?;
    let recorded = |row: QueryResult| {
        Ok(Recorded {
            reason: row.try_get("", "reason")?,
            probe_in: probe_in(&row, backend)?,
        })
    };
    row.map(recorded).transpose()
}

/// How long until the next probe, by the database's clock.
fn probe_in(row: &QueryResult, backend: DbBackend) -> Result<Option<Duration>> {
    let now = read_time(row, backend, "now")?;
    let probe_at = read_stamp(row, backend, "probe_at")?;
    Ok(probe_at.map(|at| Duration::try_from(at - now).unwrap_or_default()))
}

/// Everything that is out of reach, for longest first.
pub(crate) async fn all(tx: &Tx) -> Result<Vec<Down>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    let newly_seen = Expr::col("seen_at").gt(db_now_minus(backend, FEED_MAX));
    select
        .columns(["route", "shard", "side", "reason", "since", "probe_at"])
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Down))
        .and_where(Expr::col("side").ne(Side::Feed.name()).or(newly_seen))
        .order_by("since", Order::Asc);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read what is out of reach", source))?;
    rows.iter()
        .map(|row| {
            Ok(Down {
                shard: Shard {
                    route: row.try_get("", "route")?,
                    number: u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
                },
                side: Side::named(&row.try_get::<String>("", "side")?),
                reason: row.try_get("", "reason")?,
                down_s: (read_time(row, backend, "now")? - read_time(row, backend, "since")?).as_seconds_f64(),
                probe_s: probe_in(row, backend)?.map(|wait| wait.as_secs_f64()),
            })
        })
        .collect()
}
