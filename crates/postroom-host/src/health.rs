//! Health: alive means that the process answers, ready means that entries move.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom::{LineVitals, Vitals};
use serde::Serialize;

use crate::host::Host;

/// How long entries may wait without progress, or the store without an answer, before the process is not ready: three
/// times the time in which another relay takes over from one that died.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    troubles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<LineVitals>,
}

/// Whether the process answers at all.
pub(crate) async fn live() -> Json<Health> {
    Json(Health {
        status: "live",
        troubles: Vec::new(),
        lines: Vec::new(),
    })
}

/// Whether entries move. A destination that is down does not make this process unready: another one could do no better.
pub(crate) async fn ready(State(host): State<Host>) -> (StatusCode, Json<Health>) {
    let (code, health) = judge(&host.vitals);
    (code, Json(health))
}

fn judge(vitals: &Vitals) -> (StatusCode, Health) {
    let troubles = vitals.troubles(PATIENCE);
    let (code, status) = match troubles.is_empty() {
        true => (StatusCode::OK, "ready"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let lines = vitals.lines();
    let health = Health {
        status,
        troubles,
        lines,
    };
    (code, health)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_has_not_heard_of_its_store_is_not_ready() {
        let (code, health) = judge(&Vitals::default());
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(health.status, "not ready");
        assert_eq!(health.troubles, ["the store has not answered yet"]);
    }
}
