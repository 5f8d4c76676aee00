//! How a worker that publishes waits for the groups that read its topics.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ShardWorker;
use super::progress::commit;
use crate::error::Result;
use crate::state::feeding;
use crate::store::outbox::with_timeout;
use crate::store::table;

/// So long a route waits for new groups to join. One that cannot, because a topic is missing or its broker is away, reads the log
/// until it can.
const JOIN_MAX: Duration = Duration::from_secs(15);

impl ShardWorker {
    /// Waits for groups that have not joined their broker, which keeps nothing for them until then. Groups that a broker feeds
    /// have joined before, and are not waited for.
    pub(super) async fn until_joined(&mut self, epoch: i64, stop: &CancellationToken) {
        if self.route.awaits.is_empty() {
            return;
        }
        let mut backoff = crate::relay::backoff::Backoff::default();
        while !stop.is_cancelled() && self.is_ours(epoch) {
            match self.join_all(epoch, stop).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(route = %self.route.name, error = error.report(), "the groups that the route waits for are not known");
                    backoff.wait(stop).await;
                }
            }
        }
    }

    async fn join_all(&mut self, epoch: i64, stop: &CancellationToken) -> Result<()> {
        let new = with_timeout(self.joining()).await?;
        let is_missing = |joined: &HashMap<String, i64>| new.iter().any(|group| !joined.contains_key(group));
        if !is_missing(&self.joined.borrow()) {
            return Ok(());
        }
        let reason = format!("waits for {} to join", new.join(", "));
        self.health.behind(&self.name, Some(&reason));
        self.record_down(epoch, &reason).await?;
        let joining = timeout(JOIN_MAX, self.joined.wait_for(|joined| !is_missing(joined)));
        let is_late = stop
            .run_until_cancelled(joining)
            .await
            .is_some_and(|waited| waited.is_err());
        if is_late {
            let joined = self.joined.borrow().clone();
            let late: Vec<&String> = new.iter().filter(|group| !joined.contains_key(*group)).collect();
            tracing::warn!(route = %self.route.name, groups = ?late, "groups cannot join their broker; they read the log until they can");
            with_timeout(self.go_on_without(&late)).await?;
        }
        Ok(())
    }

    /// The groups that this route awaits and that no broker feeds yet.
    async fn joining(&self) -> Result<Vec<String>> {
        let route = Arc::clone(&self.route);
        let tx = table::look(self.pages.outbox().db()).await?;
        let mut joining = Vec::new();
        for group in &route.awaits {
            if feeding::is_joining(&tx, group).await? {
                joining.push(group.clone());
            }
        }
        tx.commit().await?;
        Ok(joining)
    }

    async fn go_on_without(&self, late: &[&String]) -> Result<()> {
        let tx = table::begin_own(self.pages.outbox().db()).await?;
        for group in late {
            feeding::read_the_log_meanwhile(&tx, group).await?;
        }
        commit(tx).await
    }
}
