//! Health: alive means that the process answers, ready means that entries move.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postroom::operate::counted;
use postroom::{Health, OpenTransaction, Trouble, WorkerHealth};
use serde::Serialize;

use crate::host::Host;

/// A database that does not list its transactions by then is asked another time.
const BLOCKERS_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    status: &'static str,
    /// Why it is not ready, causes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    troubles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<WorkerHealth>,
}

/// Whether the process answers at all.
pub(crate) async fn live() -> Json<Answer> {
    Json(Answer {
        status: "live",
        troubles: Vec::new(),
        lines: Vec::new(),
    })
}

/// Whether entries move. A destination that is down does not make this process unready: another one could do no better.
pub(crate) async fn ready(State(host): State<Host>) -> (StatusCode, Json<Answer>) {
    let (code, mut answer) = judge(&host.health);
    if !answer.troubles.is_empty() {
        answer.troubles.splice(0..0, blockers(&host).await);
    }
    (code, Json(answer))
}

/// Transactions that other sessions wait for, or that hold locks for long: most often the cause of everything else.
async fn blockers(host: &Host) -> Vec<String> {
    let listing = tokio::time::timeout(BLOCKERS_MAX, host.store.open_transactions()).await;
    let open = listing.ok().and_then(Result::ok).unwrap_or_default();
    let suspects = open.iter().filter(|transaction| transaction.is_suspect());
    let says = |transaction: &OpenTransaction| {
        let why = match transaction.blocks {
            0 => "holds locks".to_owned(),
            blocks => format!("{} for", counted(blocks, "other session waits", "other sessions wait")),
        };
        format!(
            "session {} of the database has a transaction open for {:.0} s that {why}; let it commit, or end that session",
            transaction.session, transaction.age_s
        )
    };
    suspects.map(says).collect()
}

fn judge(health: &Health) -> (StatusCode, Answer) {
    let troubles: Vec<String> = health.troubles().iter().map(Trouble::to_string).collect();
    let (code, status) = match troubles.is_empty() {
        true => (StatusCode::OK, "ready"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let lines = health.working();
    let answer = Answer {
        status,
        troubles,
        lines,
    };
    (code, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_has_not_heard_of_its_store_is_not_ready() {
        let (code, answer) = judge(&Health::default());
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.status, "not ready");
        assert_eq!(answer.troubles, ["the store has not answered yet"]);
    }
}
