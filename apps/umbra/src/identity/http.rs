//! The HTTP API for users.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use super::{handlers, tables};
use crate::door::{Id, commit};
use crate::refusal::check_id;

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/umbra/users", register)
        .post("/umbra/users/{user_id}/sessions", create_session)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    discord_user_id: String,
}

#[derive(Serialize)]
struct Registered {
    user_id: String,
}

#[derive(Serialize)]
struct Created {
    session_id: String,
}

async fn register(
    State(host): State<Host>,
    Body(wanted): Body<Register>,
) -> Result<(StatusCode, Json<Registered>), Problem> {
    check_id("discord_user_id", &wanted.discord_user_id)?;
    let tx = host.begin().await?;
    let user_id = handlers::register(&tx, &wanted.discord_user_id).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Registered { user_id })))
}

async fn create_session(State(host): State<Host>, Id(user_id): Id) -> Result<(StatusCode, Json<Created>), Problem> {
    let tx = host.begin().await?;
    tables::check_registered(&tx, &user_id).await?;
    let session_id = handlers::create_session(&tx, &user_id).await?;
    commit(tx).await?;
    Ok((StatusCode::CREATED, Json(Created { session_id })))
}
