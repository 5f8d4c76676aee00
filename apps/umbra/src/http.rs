//! How the module itself is doing.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use postroom::inspect;
use postroom_host::{Host, Problem};
use serde::Serialize;

use crate::alert::{Gauges, RULES, Rule};
use crate::{NAME, TOPIC};

pub(crate) fn routes() -> Router<Host> {
    Router::new().route("/umbra/alerts", get(alerts))
}

#[derive(Serialize)]
struct Alerts {
    metrics: Gauges,
    rules: &'static [Rule],
    firing: Vec<&'static Rule>,
}

async fn alerts(State(host): State<Host>) -> Result<Json<Alerts>, Problem> {
    let status = inspect::status(&*host.store).await?;
    let metrics = Gauges::of(&status, NAME, TOPIC);
    Ok(Json(Alerts {
        metrics,
        rules: &RULES,
        firing: metrics.firing().collect(),
    }))
}
