//! The HTTP API of the audit: the events of one aggregate.

use axum::Json;
use axum::extract::{Path, State};
use postroom_host::{Access, Host, Problem, Routes};

use super::tables::{self, Record};
use crate::door::{Part, commit};
use crate::refusal::{check_id, check_text};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service).get("/umbra/audit/{aggregate_type}/{aggregate_id}", list)
}

async fn list(
    State(host): State<Host>,
    Path((aggregate_type, aggregate_id)): Path<(String, String)>,
    part: Part,
) -> Result<Json<Vec<Record>>, Problem> {
    check_text("the type in the address", &aggregate_type, 100)?;
    check_id("the id in the address", &aggregate_id)?;
    let tx = host.begin().await?;
    let records = tables::of_aggregate(&tx, (&aggregate_type, &aggregate_id), &part).await?;
    commit(tx).await?;
    Ok(Json(records))
}
