//! Requests about comments.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Body, Host, Problem};
use serde::{Deserialize, Serialize};

use super::request::{Me, Page, id};
use crate::Settings;
use crate::comment;
use crate::domain::Refusal;
use crate::tables;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewComment {
    body: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    comment_id: i64,
}

pub(super) async fn write(
    State(host): State<Host>,
    Extension(settings): Extension<Arc<Settings>>,
    Me(me): Me,
    Path(post): Path<String>,
    Body(new): Body<NewComment>,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let comment_id = comment::write(&host, &settings.limits, (me, id(&post, "post")?), &new.body).await?;
    Ok((StatusCode::CREATED, Json(Written { comment_id })))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    comment_id: i64,
    author_id: i64,
    /// Null if the author has none.
    author_nickname: Option<String>,
    body: String,
    /// In milliseconds since 1970.
    created_at: i64,
}

#[derive(Serialize)]
pub(super) struct Comments {
    /// Newest first. Deleted ones are left out.
    comments: Vec<Shown>,
    /// Pass it as `before` for the next page. Null on the last page.
    next: Option<i64>,
}

pub(super) async fn list(
    State(host): State<Host>,
    Path(post): Path<String>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Comments>, Problem> {
    let (db, post_id, page) = (host.store.db(), id(&post, "post")?, Page::of(page)?);
    if tables::post::author(db, post_id).await?.is_none() {
        return Err(Refusal::Unknown("post").into());
    }
    let comments = tables::comment::list(db, post_id, page.before, page.limit()).await?;
    let authors = tables::member::nicknames(db, comments.iter().map(|comment| comment.author_id)).await?;
    let next = page.next(&comments, |comment| comment.comment_id);
    let comments = comments.into_iter().map(|comment| Shown {
        comment_id: comment.comment_id,
        author_id: comment.author_id,
        author_nickname: authors.get(&comment.author_id).cloned(),
        body: comment.body,
        created_at: comment.created_ms,
    });
    Ok(Json(Comments {
        comments: comments.collect(),
        next,
    }))
}

/// Idempotent: a comment that was deleted stays deleted.
pub(super) async fn delete(
    State(host): State<Host>,
    Me(me): Me,
    Path(comment): Path<String>,
) -> Result<StatusCode, Problem> {
    comment::delete(&host, me, id(&comment, "comment")?).await?;
    Ok(StatusCode::NO_CONTENT)
}
