//! Posts and their likes. A comment does not touch the row of its post: `counter` adds the changes later.

use std::collections::HashMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};

use super::{Texts, insert_row, now_ms};

/// A post. Its number of comments is that of the last flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) post_id: i64,
    pub(crate) author_id: i64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) like_count: i64,
    pub(crate) created_ms: i64,
}

pub(crate) async fn insert(tx: &Tx, author_id: i64, title: &str, body: &str) -> Result<i64> {
    let mut insert = Query::insert();
    insert
        .into_table("community_post")
        .columns(["author_id", "title", "body", "created_ms"])
        .values_panic([author_id.into(), title.into(), body.into(), now_ms().into()]);
    insert_row(tx, &mut insert, "post_id").await
}

/// The author of a post. It locks nothing.
pub(crate) async fn author(db: &impl ConnectionTrait, post_id: i64) -> Result<Option<i64>> {
    let mut select = Query::select();
    select
        .column("author_id")
        .from("community_post")
        .and_where(Expr::col("post_id").eq(post_id));
    let row = db.query_one(&select).await?;
    Ok(row.map(|row| row.try_get("", "author_id")).transpose()?)
}

/// The titles of these posts.
pub(crate) async fn titles(
    db: &impl ConnectionTrait,
    posts: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let titles = Texts {
        table: "community_post",
        id: "post_id",
        text: "title",
    };
    titles.of(db, posts).await
}

pub(crate) async fn find(db: &impl ConnectionTrait, post_id: i64) -> Result<Option<Post>> {
    let row = db
        .query_one(select().and_where(Expr::col("post_id").eq(post_id)))
        .await?;
    row.map(|row| read(&row)).transpose()
}

/// Posts with smaller ids, newest first.
pub(crate) async fn list(db: &impl ConnectionTrait, before: Option<i64>, limit: u64) -> Result<Vec<Post>> {
    let mut select = select();
    select
        .and_where_option(before.map(|before| Expr::col("post_id").lt(before)))
        .order_by("post_id", Order::Desc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter().map(read).collect()
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["post_id", "author_id", "title", "body", "like_count", "created_ms"])
        .from("community_post");
    select
}

fn read(row: &QueryResult) -> Result<Post> {
    Ok(Post {
        post_id: row.try_get("", "post_id")?,
        author_id: row.try_get("", "author_id")?,
        title: row.try_get("", "title")?,
        body: row.try_get("", "body")?,
        like_count: row.try_get("", "like_count")?,
        created_ms: row.try_get("", "created_ms")?,
    })
}

pub(crate) async fn is_liked(db: &impl ConnectionTrait, post_id: i64, member_id: i64) -> Result<bool> {
    let mut select = Query::select();
    select
        .column("liked_ms")
        .from("community_like")
        .and_where(Expr::col("post_id").eq(post_id))
        .and_where(Expr::col("member_id").eq(member_id));
    Ok(db.query_one(&select).await?.is_some())
}

/// An error of kind `Conflict` means that a concurrent request was first.
pub(crate) async fn insert_like(tx: &Tx, post_id: i64, member_id: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_like")
        .columns(["post_id", "member_id", "liked_ms"])
        .values_panic([post_id.into(), member_id.into(), now_ms().into()]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Returns whether there was one.
pub(crate) async fn delete_like(tx: &Tx, post_id: i64, member_id: i64) -> Result<bool> {
    let mut delete = Query::delete();
    delete
        .from_table("community_like")
        .and_where(Expr::col("post_id").eq(post_id))
        .and_where(Expr::col("member_id").eq(member_id));
    Ok(tx.execute(&delete).await?.rows_affected() == 1)
}

/// Changes the number of likes. Call it last: the row of the post is locked from here to the commit, and it is the only row that
/// other members wait for.
pub(crate) async fn add_likes(tx: &Tx, post_id: i64, delta: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_post")
        .value("like_count", Expr::col("like_count").add(delta))
        .and_where(Expr::col("post_id").eq(post_id));
    tx.execute(&update).await?;
    Ok(())
}
