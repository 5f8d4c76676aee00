//! The HTTP API of the notices that a user received.

use axum::Json;
use axum::extract::State;
use postroom_host::{Access, Host, Problem, Routes};

use super::tables::{self, Notice};
use crate::door::{Id, Part, commit};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service).get("/umbra/users/{user_id}/notices", list)
}

async fn list(State(host): State<Host>, Id(user_id): Id, part: Part) -> Result<Json<Vec<Notice>>, Problem> {
    let tx = host.begin().await?;
    let notices = tables::of_user(&tx, &user_id, &part).await?;
    commit(tx).await?;
    Ok(Json(notices))
}
