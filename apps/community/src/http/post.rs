//! Requests about posts and their likes.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Body, Host, Problem};
use postroom_shared::Slot;
use serde::{Deserialize, Serialize};

use super::request::{Me, Page, id};
use crate::Settings;
use crate::counter::{self, Comments};
use crate::domain::Refusal;
use crate::post;
use crate::tables::{self, post::Post};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPost {
    title: String,
    body: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    post_id: i64,
}

pub(super) async fn write(
    State(host): State<Host>,
    Extension(settings): Extension<Arc<Settings>>,
    Me(me): Me,
    Body(new): Body<NewPost>,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let post_id = post::write(&host, &settings.limits, me, (&new.title, &new.body)).await?;
    Ok((StatusCode::CREATED, Json(Written { post_id })))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    post_id: i64,
    author_id: i64,
    /// Null if the author has none.
    author_nickname: Option<String>,
    title: String,
    body: String,
    comment_count: i64,
    /// How many of them the next flush adds to the post.
    comment_overlay: i64,
    like_count: i64,
    /// In milliseconds since 1970.
    created_at: i64,
}

#[derive(Serialize)]
pub(super) struct Posts {
    /// Newest first.
    posts: Vec<Shown>,
    /// Pass it as `before` for the next page. Null on the last page.
    next: Option<i64>,
}

pub(super) async fn list(
    State(host): State<Host>,
    Extension(shared): Extension<Slot>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Posts>, Problem> {
    let page = Page::of(page)?;
    let posts = tables::post::list(host.store.db(), page.before, page.limit()).await?;
    let next = page.next(&posts, |post| post.post_id);
    let posts = show_all(&host, &shared, posts).await?;
    Ok(Json(Posts { posts, next }))
}

pub(super) async fn show(
    State(host): State<Host>,
    Extension(shared): Extension<Slot>,
    Path(post): Path<String>,
) -> Result<Json<Shown>, Problem> {
    let found = tables::post::find(host.store.db(), id(&post, "post")?).await?;
    let shown = show_all(&host, &shared, found.into_iter().collect()).await?;
    let shown = shown.into_iter().next();
    Ok(Json(shown.ok_or(Refusal::Unknown("post"))?))
}

async fn show_all(host: &Host, shared: &Slot, posts: Vec<Post>) -> Result<Vec<Shown>, Problem> {
    let ids: Vec<i64> = posts.iter().map(|post| post.post_id).collect();
    let db = host.store.db();
    let comments = counter::counts(db, shared, &ids).await?;
    let authors = tables::member::nicknames(db, posts.iter().map(|post| post.author_id)).await?;
    Ok(posts
        .into_iter()
        .map(|post| Shown::of(post, &comments, &authors))
        .collect())
}

impl Shown {
    fn of(post: Post, comments: &HashMap<i64, Comments>, authors: &HashMap<i64, String>) -> Self {
        let comments = comments.get(&post.post_id).copied().unwrap_or_default();
        Self {
            post_id: post.post_id,
            author_id: post.author_id,
            author_nickname: authors.get(&post.author_id).cloned(),
            title: post.title,
            body: post.body,
            comment_count: comments.count,
            comment_overlay: comments.overlay,
            like_count: post.like_count,
            created_at: post.created_ms,
        }
    }
}

/// Idempotent: a post is liked once by a member, and its author is told once.
pub(super) async fn like(
    State(host): State<Host>,
    Me(me): Me,
    Path(post): Path<String>,
) -> Result<StatusCode, Problem> {
    post::like(&host, me, id(&post, "post")?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn unlike(
    State(host): State<Host>,
    Me(me): Me,
    Path(post): Path<String>,
) -> Result<StatusCode, Problem> {
    post::unlike(&host, me, id(&post, "post")?).await?;
    Ok(StatusCode::NO_CONTENT)
}
