//! What a route cannot reach, written down so that whoever looks at the store sees why nothing moves.

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use time::OffsetDateTime;

use crate::clock::db_now;
use crate::cursor::{self, Shard};
use crate::error::{Error, Result};
use crate::table::{self, Table, read_time};

/// Longer reasons are cut.
const REASON_CHARS_MAX: usize = 1_000;

/// Which end of a route is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Where it delivers to.
    Delivery,
    /// The broker that feeds it.
    Feed,
}

/// An end that is out of reach.
#[derive(Clone, Debug)]
pub(crate) struct Down {
    pub(crate) shard: Shard,
    pub(crate) reason: String,
    pub(crate) since: OffsetDateTime,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Feed => "feed",
        }
    }
}

fn at(shard: &Shard, side: Side) -> Expr {
    Expr::col("route")
        .eq(shard.route.as_str())
        .and(Expr::col("shard").eq(cursor::number(shard)))
        .and(Expr::col("side").eq(side.name()))
}

/// Writes down why, and since when if that is not known yet.
pub(crate) async fn record(tx: &DatabaseTransaction, shard: &Shard, side: Side, reason: &str) -> Result<()> {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Down))
        .columns(["route", "shard", "side", "reason", "since"])
        .values_panic([
            shard.route.as_str().into(),
            cursor::number(shard).into(),
            side.name().into(),
            reason.into(),
            db_now(tx.get_database_backend()),
        ])
        .on_conflict(
            OnConflict::columns(["route", "shard", "side"])
                .update_column("reason")
                .to_owned(),
        );
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("write down what is out of reach", source))?;
    Ok(())
}

/// It can be reached again.
pub(crate) async fn clear(tx: &DatabaseTransaction, shard: &Shard, side: Side) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Down))
        .and_where(at(shard, side));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("forget what was out of reach", source))?;
    Ok(())
}

/// What stands written for this end.
pub(crate) async fn read(tx: &DatabaseTransaction, shard: &Shard, side: Side) -> Result<Option<String>> {
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

/// Everything that is out of reach.
pub(crate) async fn all(tx: &DatabaseTransaction) -> Result<Vec<Down>> {
    let mut select = Query::select();
    select
        .columns(["route", "shard", "reason", "since"])
        .from(table::named(tx, Table::Down));
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
                reason: row.try_get("", "reason")?,
                since: read_time(row, tx.get_database_backend(), "since")?,
            })
        })
        .collect()
}
