//! The HTTP API of the notices that a user received.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use postroom_host::{Host, Problem};

use super::tables::{self, Notice};
use crate::door::{Id, Part, commit};

pub(crate) fn routes() -> Router<Host> {
    Router::new().route("/umbra/users/{user_id}/notices", get(list))
}

async fn list(State(host): State<Host>, Id(user_id): Id, part: Part) -> Result<Json<Vec<Notice>>, Problem> {
    let tx = host.begin().await?;
    let notices = tables::of_user(&tx, &user_id, &part).await?;
    commit(tx).await?;
    Ok(Json(notices))
}
