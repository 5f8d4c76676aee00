//! The HTTP API for the recovery workers and the raid guard.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom::emit;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use super::events::{AntiNukeActioned, AntiNukeTriggered};
use super::handlers;
use crate::door::{Id, commit};
use crate::guild::tables::check_installed;
use crate::refusal::{check_list, check_text};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/umbra/guilds/{guild_id}/snapshots", create_snapshot)
        .delete("/umbra/snapshots/{snapshot_id}", delete_snapshot)
        .post("/umbra/snapshots/{snapshot_id}/restores", start_restore)
        .post("/umbra/restores/{restore_job_id}/complete", complete_restore)
        .post("/umbra/restores/{restore_job_id}/fail", fail_restore)
        .post("/umbra/guilds/{guild_id}/anti-nuke", trigger_anti_nuke)
        .post("/umbra/guilds/{guild_id}/anti-nuke/actions", action_anti_nuke)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateSnapshot {
    trigger: String,
}

#[derive(Serialize)]
struct Created {
    snapshot_id: String,
}

#[derive(Serialize)]
struct Started {
    restore_job_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Complete {
    result_summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    error_summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trigger {
    detected_pattern: String,
    suspects: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    actions_taken: Vec<String>,
}

async fn create_snapshot(
    State(host): State<Host>,
    Id(guild_id): Id,
    Body(wanted): Body<CreateSnapshot>,
) -> Result<(StatusCode, Json<Created>), Problem> {
    check_text("trigger", &wanted.trigger, 100)?;
    let tx = host.begin().await?;
    check_installed(&tx, &guild_id).await?;
    let snapshot_id = handlers::create_snapshot(&tx, &guild_id, &wanted.trigger).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Created { snapshot_id })))
}

async fn delete_snapshot(State(host): State<Host>, Id(snapshot_id): Id) -> Result<StatusCode, Problem> {
    let tx = host.begin().await?;
    handlers::delete_snapshot(&tx, &snapshot_id).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn start_restore(State(host): State<Host>, Id(snapshot_id): Id) -> Result<(StatusCode, Json<Started>), Problem> {
    let tx = host.begin().await?;
    let restore_job_id = handlers::start_restore(&tx, &snapshot_id).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Started { restore_job_id })))
}

async fn complete_restore(
    State(host): State<Host>,
    Id(restore_job_id): Id,
    Body(wanted): Body<Complete>,
) -> Result<StatusCode, Problem> {
    check_text("result_summary", &wanted.result_summary, 500)?;
    let tx = host.begin().await?;
    handlers::complete_restore(&tx, &restore_job_id, wanted.result_summary).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn fail_restore(
    State(host): State<Host>,
    Id(restore_job_id): Id,
    Body(wanted): Body<Fail>,
) -> Result<StatusCode, Problem> {
    check_text("error_summary", &wanted.error_summary, 500)?;
    let tx = host.begin().await?;
    handlers::fail_restore(&tx, &restore_job_id, wanted.error_summary).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn trigger_anti_nuke(
    State(host): State<Host>,
    Id(guild_id): Id,
    Body(wanted): Body<Trigger>,
) -> Result<StatusCode, Problem> {
    check_text("detected_pattern", &wanted.detected_pattern, 100)?;
    check_list("suspects", &wanted.suspects)?;
    let tx = host.begin().await?;
    check_installed(&tx, &guild_id).await?;
    let triggered = AntiNukeTriggered {
        guild_id,
        detected_pattern: wanted.detected_pattern,
        suspects: wanted.suspects,
    };
    emit(&tx, &triggered).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn action_anti_nuke(
    State(host): State<Host>,
    Id(guild_id): Id,
    Body(wanted): Body<Action>,
) -> Result<StatusCode, Problem> {
    check_list("actions_taken", &wanted.actions_taken)?;
    let tx = host.begin().await?;
    check_installed(&tx, &guild_id).await?;
    let actioned = AntiNukeActioned {
        guild_id,
        actions_taken: wanted.actions_taken,
    };
    emit(&tx, &actioned).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}
