//! The members that each member follows.

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::now_ms;

pub(crate) async fn exists(db: &impl ConnectionTrait, follower_id: i64, followee_id: i64) -> Result<bool> {
    let mut select = Query::select();
    select
        .column("followed_ms")
        .from("community_follow")
        .and_where(Expr::col("follower_id").eq(follower_id))
        .and_where(Expr::col("followee_id").eq(followee_id));
    Ok(db.query_one(&select).await?.is_some())
}

/// An error of kind `Conflict` means that a concurrent request was first.
pub(crate) async fn insert(tx: &Tx, follower_id: i64, followee_id: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_follow")
        .columns(["follower_id", "followee_id", "followed_ms"])
        .values_panic([follower_id.into(), followee_id.into(), now_ms().into()]);
    tx.execute(&insert).await?;
    Ok(())
}

pub(crate) async fn delete(tx: &Tx, follower_id: i64, followee_id: i64) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table("community_follow")
        .and_where(Expr::col("follower_id").eq(follower_id))
        .and_where(Expr::col("followee_id").eq(followee_id));
    tx.execute(&delete).await?;
    Ok(())
}
