//! The HTTP API for the bot: installation, removal, change of owner, deletion of the guild.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use super::domain::Guild;
use super::{handlers, tables};
use crate::door::{Id, commit};
use crate::refusal::check_id;

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/umbra/guilds", install)
        .get("/umbra/guilds/{guild_id}", show)
        .delete("/umbra/guilds/{guild_id}", delete)
        .post("/umbra/guilds/{guild_id}/kick", kick)
        .put("/umbra/guilds/{guild_id}/owner", change_owner)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Install {
    guild_id: String,
    installer_user_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeOwner {
    owner_id: String,
}

#[derive(Serialize)]
struct Shown {
    guild_id: String,
    owner_id: String,
    status: &'static str,
}

impl From<Guild> for Json<Shown> {
    fn from(guild: Guild) -> Self {
        Self(Shown {
            guild_id: guild.guild_id,
            owner_id: guild.owner_id,
            status: guild.status.name(),
        })
    }
}

async fn install(State(host): State<Host>, Body(wanted): Body<Install>) -> Result<(StatusCode, Json<Shown>), Problem> {
    check_id("guild_id", &wanted.guild_id)?;
    check_id("installer_user_id", &wanted.installer_user_id)?;
    let tx = host.begin().await?;
    let guild = handlers::install(&tx, &wanted.guild_id, &wanted.installer_user_id).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, guild.into()))
}

async fn kick(State(host): State<Host>, Id(guild_id): Id) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let guild = handlers::kick(&tx, &guild_id).await?;
    commit(tx).await?;
    Ok(guild.into())
}

async fn change_owner(
    State(host): State<Host>,
    Id(guild_id): Id,
    Body(wanted): Body<ChangeOwner>,
) -> Result<Json<Shown>, Problem> {
    check_id("owner_id", &wanted.owner_id)?;
    let tx = host.begin().await?;
    let guild = handlers::change_owner(&tx, &guild_id, &wanted.owner_id).await?;
    commit(tx).await?;
    Ok(guild.into())
}

async fn delete(State(host): State<Host>, Id(guild_id): Id) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let guild = handlers::delete(&tx, &guild_id).await?;
    commit(tx).await?;
    Ok(guild.into())
}

async fn show(State(host): State<Host>, Id(guild_id): Id) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let guild = tables::find(&tx, &guild_id).await?.ok_or_else(tables::unknown)?;
    commit(tx).await?;
    Ok(guild.into())
}
