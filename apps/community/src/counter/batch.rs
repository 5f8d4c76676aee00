//! The rows of `count_batches`: one for each transaction that added changes to posts.

use postroom::db_clock::stamp;
use postroom::{Result, Tx, clock};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};

use crate::tables::{insert_row, now_ms};

const TABLE: &str = "count_batches";

/// The totals of a batch: its changes, the posts that they belong to, and the sum of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) changes: i64,
    pub(super) posts: i64,
    pub(super) delta: i64,
}

/// A batch whose changes may still be in the tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsettled {
    pub(super) batch_id: i64,
    pub(super) created_ms: i64,
}

/// Makes a batch; returns its id.
pub(super) async fn begin(tx: &Tx) -> Result<i64> {
    let mut insert = Query::insert();
    insert
        .into_table(TABLE)
        .columns(["processed_to", "change_count", "post_count", "delta_sum", "created_ms"])
        .values_panic([
            Expr::val(stamp(tx.get_database_backend(), clock::now())),
            0.into(),
            0.into(),
            0.into(),
            now_ms().into(),
        ]);
    insert_row(tx, &mut insert, "batch_id").await
}

pub(super) async fn finish(tx: &Tx, batch_id: i64, sums: Sums) -> Result<()> {
    let mut update = Query::update();
    update
        .table(TABLE)
        .value("change_count", sums.changes)
        .value("post_count", sums.posts)
        .value("delta_sum", sums.delta)
        .and_where(Expr::col("batch_id").eq(batch_id));
    tx.execute(&update).await?;
    Ok(())
}

/// Writes that the tally has none of the changes of this batch any more.
pub(super) async fn settled(db: &impl ConnectionTrait, batch_id: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(TABLE)
        .value("settled_ms", now_ms())
        .and_where(Expr::col("batch_id").eq(batch_id));
    db.execute(&update).await?;
    Ok(())
}

/// Whether there is a change without a batch, or a batch that was not settled. It is asked every few seconds, so it is one statement.
pub(super) async fn is_anything_to_do(db: &impl ConnectionTrait) -> Result<bool> {
    let mut unclaimed = Query::select();
    unclaimed
        .expr(Expr::val(1))
        .from("comment_change")
        .and_where(Expr::col("batch_id").is_null())
        .limit(1);
    let mut unsettled = Query::select();
    unsettled
        .expr(Expr::val(1))
        .from(TABLE)
        .and_where(Expr::col("settled_ms").is_null())
        .limit(1);
    let mut select = Query::select();
    select.expr_as(Expr::exists(unclaimed).or(Expr::exists(unsettled)), "is_any");
    let row = db.query_one(&select).await?;
    Ok(row.map(|row| row.try_get("", "is_any")).transpose()?.unwrap_or(false))
}

/// Batches that were not settled, the oldest first.
pub(super) async fn unsettled(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Unsettled>> {
    let mut select = Query::select();
    select
        .columns(["batch_id", "created_ms"])
        .from(TABLE)
        .and_where(Expr::col("settled_ms").is_null())
        .order_by("batch_id", Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Unsettled {
                batch_id: row.try_get("", "batch_id")?,
                created_ms: row.try_get("", "created_ms")?,
            })
        })
        .collect()
}

/// The oldest batches that were made before this time and are settled, with their sums.
pub(super) async fn settled_before(tx: &Tx, before_ms: i64, limit: u64) -> Result<Vec<(i64, Sums)>> {
    let mut select = Query::select();
    select
        .columns(["batch_id", "change_count", "post_count", "delta_sum"])
        .from(TABLE)
        .and_where(Expr::col("created_ms").lt(before_ms))
        .and_where(Expr::col("settled_ms").is_not_null())
        .order_by("batch_id", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            let sums = Sums {
                changes: row.try_get("", "change_count")?,
                posts: row.try_get("", "post_count")?,
                delta: row.try_get("", "delta_sum")?,
            };
            Ok((row.try_get("", "batch_id")?, sums))
        })
        .collect()
}

pub(super) async fn delete(tx: &Tx, ids: &[i64]) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(TABLE)
        .and_where(Expr::col("batch_id").is_in(ids.iter().copied()));
    Ok(tx.execute(&delete).await?.rows_affected())
}
