//! Outages: why a route cannot reach its destination or its broker. Operators read the reason in the store.

use std::time::Duration;

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::state::cursor::{self, Shard};
use crate::store::db_clock::{db_now, db_now_minus};
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

/// The recorded outage of this side.
pub(crate) async fn read(tx: &Tx, shard: &Shard, side: Side) -> Result<Option<String>> {
    let mut select = Query::select();
    select
        .column("reason")
        .from(table::named(tx, Table::Down))
        .and_where(at(shard, side));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("read what is out of reach", source))?;
    Ok(row.map(|row| row.try_get("", "reason")).transpose()?)
}

/// Everything that is out of reach, for longest first.
pub(crate) async fn all(tx: &Tx) -> Result<Vec<Down>> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    let newly_seen = Expr::col("seen_at").gt(db_now_minus(backend, FEED_MAX));
    select
        .columns(["route", "shard", "side", "reason", "since"])
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
            })
        })
        .collect()
}
