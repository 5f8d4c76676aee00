//! Readiness: whether entries move in this process.

use std::sync::Arc;
use std::time::Duration;

use postroom::operate::counted;
use postroom::{Health, Inspect, OpenTransaction, Relay, Trouble, WorkerHealth};
use serde::Serialize;

/// A database that does not list its transactions by then is asked at the next check.
const BLOCKERS_MAX: Duration = Duration::from_secs(2);

/// The result of a readiness check. It serialises to the JSON that the daemon answers: `status`, `troubles`, `lines`.
#[derive(Clone, Debug, Serialize)]
pub struct ReadinessReport {
    status: &'static str,
    /// Why the process is not ready, causes first; in words for an operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// The lines that this process works.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<WorkerHealth>,
}

impl ReadinessReport {
    /// Whether entries move. An HTTP server answers 200 if they do and 503 if not.
    pub fn is_ready(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// Checks whether a process is ready. Cloning it is cheap.
///
/// A destination that is down does not make a process unready: another process could do no better.
#[derive(Clone, Debug)]
pub struct Readiness {
    store: Arc<dyn Inspect>,
    health: Arc<Health>,
}

impl Readiness {
    /// The readiness of a process with this store and this relay. Create it before [`Relay::run`] takes the relay.
    pub fn new(store: Arc<dyn Inspect>, relay: &Relay) -> Self {
        Self {
            store,
            health: relay.health(),
        }
    }

    /// Judges what the relay has noted in memory. Only when something is wrong, it asks the database for transactions that
    /// block others, for two seconds at most.
    pub async fn check(&self) -> ReadinessReport {
        let mut report = judge(&self.health);
        if !report.is_ready() {
            report.troubles.splice(0..0, self.blockers().await);
        }
        report
    }

    /// Transactions that other sessions wait for, or that hold locks for long: the most frequent cause of everything else.
    async fn blockers(&self) -> Vec<String> {
        let listing = tokio::time::timeout(BLOCKERS_MAX, self.store.open_transactions()).await;
        let open = listing.ok().and_then(Result::ok).unwrap_or_default();
        let suspects = open.iter().filter(|transaction| transaction.is_suspect());
        suspects.map(blocker).collect()
    }
}

fn blocker(transaction: &OpenTransaction) -> String {
    let why = match transaction.blocks {
        0 => "holds locks".to_owned(),
        blocks => format!("{} for", counted(blocks, "other session waits", "other sessions wait")),
    };
    format!(
        "session {} of the database has a transaction open for {:.0} s that {why}; let it commit, or end that session",
        transaction.session, transaction.age_s
    )
}

fn judge(health: &Health) -> ReadinessReport {
    let troubles: Vec<String> = health.troubles().iter().map(Trouble::to_string).collect();
    ReadinessReport {
        status: if troubles.is_empty() { "ready" } else { "not ready" },
        troubles,
        lines: health.working(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_has_not_heard_of_its_store_is_not_ready() {
        let report = judge(&Health::default());
        assert!(!report.is_ready());
        assert_eq!(report.status, "not ready");
        assert_eq!(report.troubles, ["the store has not answered yet"]);
    }
}
