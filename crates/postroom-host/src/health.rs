//! Health over HTTP: live means that the process answers, ready means that entries move.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom_monitor::ReadinessReport;
use serde_json::{Value, json};

use crate::host::Host;

/// Whether the process answers at all.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// Whether entries move.
pub(crate) async fn ready(State(host): State<Host>) -> (StatusCode, Json<ReadinessReport>) {
    let report = host.readiness().await;
    let code = match report.is_ready() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(report))
}
