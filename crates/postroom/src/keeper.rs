//! The keeper: takes, renews and gives back the leases of all lines of a process, in one statement for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cursor::{self, Holder, Lease, Shard};
use crate::error::Result;
use crate::outbox::Outbox;
use crate::table;

/// The longest wait before looking whether somebody's lease has run out.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the leases of one process.
#[derive(Debug)]
pub(crate) struct Keeper {
    outbox: Arc<dyn Outbox>,
    owner: String,
    ttl: Duration,
    slots: HashMap<Shard, watch::Sender<Option<Lease>>>,
}

impl Keeper {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, owner: String, ttl: Duration) -> Self {
        Self {
            outbox,
            owner,
            ttl,
            slots: HashMap::new(),
        }
    }

    /// A shard to keep the lease of, and how its line hears of it.
    pub(crate) fn slot(&mut self, shard: Shard) -> watch::Receiver<Option<Lease>> {
        self.slots
            .entry(shard)
            .or_insert_with(|| watch::Sender::new(None))
            .subscribe()
    }

    /// Keeps leases until `stop`. Whoever calls it ends the lines first and then calls [`Keeper::release`].
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.round().await.unwrap_or_else(|error| {
                tracing::warn!(
                    error = error.report(),
                    "leases could not be renewed; lines stop when theirs run out"
                );
            });
            stop.run_until_cancelled(tokio::time::sleep(self.pause())).await;
        }
    }

    /// Gives every lease back, so that others need not wait for it to run out.
    pub(crate) async fn release(&self) -> Result<()> {
        let tx = table::begin_own(self.outbox.db()).await?;
        cursor::release(&tx, &self.owner).await?;
        tx.commit().await?;
        Ok(())
    }

    fn pause(&self) -> Duration {
        let third = self.ttl / 3;
        if self.holds_all() { third } else { third.min(LOOK) }
    }

    fn holds_all(&self) -> bool {
        self.slots.values().all(|slot| slot.borrow().is_some())
    }

    /// Renews what is ours, drops what is not any more, takes what is free.
    async fn round(&self) -> Result<()> {
        let tx = table::begin_own(self.outbox.db()).await?;
        let (deadline, renewed) = cursor::renew(&tx, &self.owner, self.ttl).await?;
        if self.holds_all() && renewed == self.slots.len() as u64 {
            tx.commit().await?;
            self.prolong(deadline);
            return Ok(());
        }
        let holders = cursor::holders(&tx).await?;
        tx.commit().await?;
        for holder in holders {
            let Some(slot) = self.slots.get(&holder.shard) else {
                continue;
            };
            if holder.owner.as_deref() == Some(self.owner.as_str()) {
                slot.send_if_modified(|lease| renew(lease, holder.epoch, deadline));
            } else {
                slot.send_if_modified(|lease| lease.take().is_some());
                self.take(&holder, slot).await?;
            }
        }
        Ok(())
    }

    /// Every lease is still ours: the epoch changes only with the owner.
    fn prolong(&self, deadline: Instant) {
        for slot in self.slots.values() {
            slot.send_if_modified(|lease| lease.is_some_and(|held| renew(lease, held.epoch, deadline)));
        }
    }

    async fn take(&self, holder: &Holder, slot: &watch::Sender<Option<Lease>>) -> Result<()> {
        if !holder.is_free {
            return Ok(());
        }
        let tx = table::begin_own(self.outbox.db()).await?;
        let taken = cursor::take(&tx, &holder.shard, &self.owner, self.ttl).await?;
        tx.commit().await?;
        if let Some(lease) = taken {
            slot.send_replace(Some(lease));
        }
        Ok(())
    }
}

/// Renews a lease. Whether its line must hear of it: one whose lease was running need not.
fn renew(lease: &mut Option<Lease>, epoch: i64, deadline: Instant) -> bool {
    let before = lease.replace(Lease { epoch, deadline });
    before.is_none_or(|before| before.epoch != epoch || before.deadline <= Instant::now())
}
