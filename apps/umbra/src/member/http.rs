//! The HTTP API for a guild's web page and its moderators.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use super::handlers;
use crate::door::{Id, commit};
use crate::guild::tables::check_installed;
use crate::refusal::{check_list, check_text};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/umbra/guilds/{guild_id}/members", join)
        .post("/umbra/members/{member_id}/restore", restore)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    slug: String,
}

#[derive(Serialize)]
struct Joined {
    member_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    roles: Vec<String>,
}

async fn join(
    State(host): State<Host>,
    Id(guild_id): Id,
    Body(wanted): Body<Join>,
) -> Result<(StatusCode, Json<Joined>), Problem> {
    check_text("slug", &wanted.slug, 100)?;
    let tx = host.begin().await?;
    check_installed(&tx, &guild_id).await?;
    let member_id = handlers::join(&tx, &guild_id, &wanted.slug).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Joined { member_id })))
}

async fn restore(
    State(host): State<Host>,
    Id(member_id): Id,
    Body(wanted): Body<Restore>,
) -> Result<StatusCode, Problem> {
    check_list("roles", &wanted.roles)?;
    let tx = host.begin().await?;
    handlers::restore(&tx, &member_id, wanted.roles).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}
