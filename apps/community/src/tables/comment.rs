//! Comments. A deleted one stays, with the time when it was deleted.

use std::collections::HashMap;

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};

use super::{Texts, insert_row, now_ms};

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) comment_id: i64,
    pub(crate) author_id: i64,
    pub(crate) body: String,
    pub(crate) created_ms: i64,
}

/// The post and the author of a comment, and whether the comment was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) post_id: i64,
    pub(crate) author_id: i64,
    pub(crate) is_deleted: bool,
}

pub(crate) async fn insert(tx: &Tx, post_id: i64, author_id: i64, body: &str) -> Result<i64> {
    let mut insert = Query::insert();
    insert
        .into_table("community_comment")
        .columns(["post_id", "author_id", "body", "created_ms"])
        .values_panic([post_id.into(), author_id.into(), body.into(), now_ms().into()]);
    insert_row(tx, &mut insert, "comment_id").await
}

pub(crate) async fn ownership(db: &impl ConnectionTrait, comment_id: i64) -> Result<Option<Ownership>> {
    let mut select = Query::select();
    select
        .columns(["post_id", "author_id", "deleted_ms"])
        .from("community_comment")
        .and_where(Expr::col("comment_id").eq(comment_id));
    let row = db.query_one(&select).await?;
    row.map(|row| {
        Ok(Ownership {
            post_id: row.try_get("", "post_id")?,
            author_id: row.try_get("", "author_id")?,
            is_deleted: row.try_get::<Option<i64>>("", "deleted_ms")?.is_some(),
        })
    })
    .transpose()
}

/// The texts of those of these comments that were not deleted.
pub(crate) async fn bodies(
    db: &impl ConnectionTrait,
    comments: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let bodies = Texts {
        table: "community_comment",
        id: "comment_id",
        text: "body",
    };
    bodies.some(db, comments, Expr::col("deleted_ms").is_null()).await
}

/// Marks a comment as deleted. Returns `false` if it was deleted already.
pub(crate) async fn delete(tx: &Tx, comment_id: i64) -> Result<bool> {
    let mut update = Query::update();
    update
        .table("community_comment")
        .value("deleted_ms", now_ms())
        .and_where(Expr::col("comment_id").eq(comment_id))
        .and_where(Expr::col("deleted_ms").is_null());
    Ok(tx.execute(&update).await?.rows_affected() == 1)
}

/// Comments of a post with smaller ids that were not deleted, newest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    post_id: i64,
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<Comment>> {
    let mut select = Query::select();
    select
        .columns(["comment_id", "author_id", "body", "created_ms"])
        .from("community_comment")
        .and_where(Expr::col("post_id").eq(post_id))
        .and_where(Expr::col("deleted_ms").is_null())
        .and_where_option(before.map(|before| Expr::col("comment_id").lt(before)))
        .order_by("comment_id", Order::Desc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Comment {
                comment_id: row.try_get("", "comment_id")?,
                author_id: row.try_get("", "author_id")?,
                body: row.try_get("", "body")?,
                created_ms: row.try_get("", "created_ms")?,
            })
        })
        .collect()
}
