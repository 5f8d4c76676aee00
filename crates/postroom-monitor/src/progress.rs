//! Progress of every route as log lines, for processes that nobody watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::{CancellationToken, Inspect, Result, operate};

/// How often the routes are looked at.
const EVERY: Duration = Duration::from_secs(10);

/// Writes a line for each route that has moved, until `stop`.
pub async fn log(store: Arc<dyn Inspect>, stop: CancellationToken) -> Result<()> {
    let mut known = HashMap::new();
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        let status = match operate::status(store.as_ref()).await {
            Ok(status) => status,
            Err(error) => {
                tracing::warn!(error = error.report(), "progress could not be read");
                continue;
            }
        };
        for route in &status.routes {
            let name = (route.route.clone(), route.shard);
            if known.insert(name, route.delivered) != Some(route.delivered) {
                let parked = route.retrying + route.waiting;
                tracing::info!(
                    route = route.route,
                    shard = route.shard,
                    delivered = route.delivered,
                    backlog = route.backlog,
                    parked,
                    dead = route.dead,
                    "progress"
                );
            }
        }
    }
    Ok(())
}
