//! The HTTP API for the bot: the plan that a guild may use.

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use postroom::clock;
use postroom_host::{Access, Host, Problem, Routes};
use serde::Serialize;
use time::OffsetDateTime;

use super::tables;
use crate::door::{Id, commit};
use crate::refusal::Refusal;

/// How long a licence stays usable after the paid period.
#[derive(Clone, Copy)]
struct Grace(Duration);

pub(crate) fn routes(grace: Duration) -> Routes {
    Routes::new(Access::Service)
        .get("/umbra/guilds/{guild_id}/license", show)
        .extension(Grace(grace))
}

#[derive(Serialize)]
struct Shown {
    license_id: String,
    guild_id: String,
    plan_code: &'static str,
    status: &'static str,
    /// The plan that the guild may use now.
    usable_plan: &'static str,
    #[serde(with = "time::serde::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
}

async fn show(
    State(host): State<Host>,
    Extension(Grace(grace)): Extension<Grace>,
    Id(guild_id): Id,
) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let license = tables::find(&tx, &guild_id).await?;
    commit(tx).await?;
    let license = license.ok_or_else(|| Refusal::absent("unknown_license", "this guild has no licence"))?;
    Ok(Json(Shown {
        plan_code: license.plan.code(),
        status: license.status.name(),
        usable_plan: license.plan_at(clock::now(), grace).code(),
        expires_at: license.expires_at,
        license_id: license.license_id,
        guild_id: license.guild_id,
    }))
}
