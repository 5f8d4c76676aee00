//! Requests about members and who follows them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Body, Host, Problem};
use serde::{Deserialize, Serialize};

use super::request::{Me, id};
use crate::Settings;
use crate::domain::Refusal;
use crate::member;
use crate::tables::{self, follow};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    nickname: String,
}

pub(super) async fn put(
    State(host): State<Host>,
    Extension(settings): Extension<Arc<Settings>>,
    Me(me): Me,
    Body(profile): Body<Profile>,
) -> Result<StatusCode, Problem> {
    member::rename(&host, &settings.limits, me, &profile.nickname).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    member_id: i64,
    nickname: String,
    /// In milliseconds since 1970.
    joined_at: i64,
    /// Whether the reader follows the member.
    is_followed: bool,
}

pub(super) async fn show(
    State(host): State<Host>,
    Me(me): Me,
    Path(member): Path<String>,
) -> Result<Json<Shown>, Problem> {
    let member_id = match member.as_str() {
        "me" => me,
        text => id(text, "member")?,
    };
    let db = host.store.db();
    let found = tables::member::find(db, member_id).await?;
    let found = found.ok_or(Refusal::Unknown("member"))?;
    Ok(Json(Shown {
        member_id,
        nickname: found.nickname,
        joined_at: found.joined_ms,
        is_followed: follow::exists(db, me, member_id).await?,
    }))
}

/// Idempotent: whoever follows already goes on, and nobody is told twice.
pub(super) async fn follow(
    State(host): State<Host>,
    Me(me): Me,
    Path(member): Path<String>,
) -> Result<StatusCode, Problem> {
    member::follow(&host, me, id(&member, "member")?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn unfollow(
    State(host): State<Host>,
    Me(me): Me,
    Path(member): Path<String>,
) -> Result<StatusCode, Problem> {
    member::unfollow(&host, me, id(&member, "member")?).await?;
    Ok(StatusCode::NO_CONTENT)
}
