//! Checks of the counts that every process repeats, and shows as metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use postroom::{CancellationToken, Result};
use postroom_host::Host;
use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::prometheus_client::metrics::gauge::Gauge;
use postroom_host::prometheus_client::registry::Registry;
use sea_orm::ConnectionTrait;

use super::changes;
use super::drift::sample;
use crate::tables::now_ms;

/// The time between two checks.
const EVERY: Duration = Duration::from_secs(15);

/// The metrics of the counts. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    drift: Gauge,
    checked: Counter,
    lag: Gauge<f64, AtomicU64>,
    not_tallied: Counter,
    last: Arc<AtomicI64>,
}

impl Counts {
    /// Adds them to the page.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "comment_count_drift",
            "Differences between numbers of comments and the sums of their changes, in the last sample; always 0",
            self.drift.clone(),
        );
        registry.register(
            "comment_count_checked",
            "Posts whose number of comments was compared with the sum of its changes",
            self.checked.clone(),
        );
        registry.register(
            "comment_count_lag_seconds",
            "Age of the oldest change of a number of comments that no batch has",
            self.lag.clone(),
        );
        registry.register(
            "comment_count_not_tallied",
            "Changes that are shown with the next flush only, because the tally was away",
            self.not_tallied.clone(),
        );
    }

    pub(super) fn not_tallied(&self, changes: usize) {
        self.not_tallied.inc_by(changes as u64);
    }

    /// Checks the counts again and again until the stop.
    pub(crate) async fn run(self, host: Host, stop: CancellationToken) -> Result<()> {
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            if let Err(error) = self.look(host.store.db()).await {
                tracing::warn!(error = error.report(), "comment counts could not be checked");
            }
        }
        Ok(())
    }

    async fn look(&self, db: &impl ConnectionTrait) -> Result<()> {
        self.lag.set(lag(db).await?.as_secs_f64());
        let drift = sample(db, self.last.load(Ordering::Relaxed)).await?;
        self.last.store(drift.last, Ordering::Relaxed);
        self.checked.inc_by(drift.posts);
        self.drift.set(drift.total());
        for (post_id, difference) in &drift.wrong {
            tracing::error!(
                post_id,
                difference,
                "a number of comments is not the sum of its changes"
            );
        }
        Ok(())
    }
}

/// The age of the oldest change that no batch has.
pub(crate) async fn lag(db: &impl ConnectionTrait) -> Result<Duration> {
    let oldest = changes::oldest_unclaimed_ms(db).await?;
    let age = oldest.map_or(0, |oldest_ms| now_ms() - oldest_ms);
    Ok(Duration::from_millis(u64::try_from(age).unwrap_or_default()))
}
