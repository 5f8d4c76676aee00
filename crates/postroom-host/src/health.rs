//! Health over HTTP: live means that the process answers, ready means that entries move.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::access::Caller;
use crate::host::Host;

/// Whether the process answers at all.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// Whether entries move. The reasons, which name routes, sessions and addresses, are for viewers only.
pub(crate) async fn ready(State(host): State<Host>, caller: Caller) -> Response {
    if !caller.is_viewer() {
        let is_ready = host.is_ready();
        return (code(is_ready), Json(json!({ "status": status(is_ready) }))).into_response();
    }
    let report = host.readiness().await;
    (code(report.is_ready()), Json(report)).into_response()
}

fn code(is_ready: bool) -> StatusCode {
    match is_ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn status(is_ready: bool) -> &'static str {
    match is_ready {
        true => "ready",
        false => "not ready",
    }
}
