//! The rows of `comment_change`: one for each comment that was written or deleted.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use uuid::Uuid;

use crate::events::CommentCountDelta;

const TABLE: &str = "comment_change";

/// A change of the number of comments of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) event_id: String,
    pub(super) post_id: i64,
    pub(super) delta: i32,
}

pub(super) async fn insert(tx: &Tx, event_id: Uuid, delta: &CommentCountDelta, now_ms: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(TABLE)
        .columns(["event_id", "post_id", "delta", "created_ms"])
        .values_panic([
            event_id.to_string().into(),
            delta.post_id.into(),
            delta.delta.into(),
            now_ms.into(),
        ]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Changes that no batch has, the oldest first. It locks nothing: a writer that has not committed is not waited for.
pub(super) async fn unclaimed(tx: &Tx, limit: u64) -> Result<Vec<String>> {
    let mut select = Query::select();
    select
        .column("event_id")
        .from(TABLE)
        .and_where(Expr::col("batch_id").is_null())
        .order_by("created_ms", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "event_id")?)).collect()
}

/// Gives these changes to a batch. Those that another batch has taken meanwhile stay there.
pub(super) async fn claim(tx: &Tx, ids: &[String], batch_id: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table(TABLE)
        .value("batch_id", batch_id)
        .and_where(Expr::col("event_id").is_in(ids))
        .and_where(Expr::col("batch_id").is_null());
    tx.execute(&update).await?;
    Ok(())
}

/// The changes of a batch.
pub(super) async fn of_batch(db: &impl ConnectionTrait, batch_id: i64) -> Result<Vec<Change>> {
    let rows = db
        .query_all(select().and_where(Expr::col("batch_id").eq(batch_id)))
        .await?;
    rows.iter().map(read).collect()
}

/// Changes that a batch has and that are older than this.
pub(super) async fn claimed_before(tx: &Tx, before_ms: i64, limit: u64) -> Result<Vec<Change>> {
    let mut select = select();
    select
        .and_where(Expr::col("created_ms").lt(before_ms))
        .and_where(Expr::col("batch_id").is_not_null())
        .order_by("created_ms", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    rows.iter().map(read).collect()
}

pub(super) async fn delete(tx: &Tx, ids: &[String]) -> Result<u64> {
    let mut delete = Query::delete();
    delete.from_table(TABLE).and_where(Expr::col("event_id").is_in(ids));
    Ok(tx.execute(&delete).await?.rows_affected())
}

/// When the oldest change that no batch has was written.
pub(super) async fn oldest_unclaimed_ms(db: &impl ConnectionTrait) -> Result<Option<i64>> {
    let mut select = Query::select();
    select
        .column("created_ms")
        .from(TABLE)
        .and_where(Expr::col("batch_id").is_null())
        .order_by("created_ms", Order::Asc)
        .limit(1);
    let row = db.query_one(&select).await?;
    Ok(row.map(|row| row.try_get("", "created_ms")).transpose()?)
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(["event_id", "post_id", "delta"]).from(TABLE);
    select
}

fn read(row: &QueryResult) -> Result<Change> {
    Ok(Change {
        event_id: row.try_get("", "event_id")?,
        post_id: row.try_get("", "post_id")?,
        delta: row.try_get("", "delta")?,
    })
}
