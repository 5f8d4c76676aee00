//! The keeper: takes, renews and gives back the leases of all lines of a process, in one statement for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cursor::{self, Holder, Lease, Shard};
use crate::error::Result;
use crate::outbox::{Outbox, answered_within};
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
            self.round_in_time().await.unwrap_or_else(|error| {
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

    /// A round that ends: a database that went away without a word would be waited for for ever.
    async fn round_in_time(&self) -> Result<()> {
        answered_within(self.ttl, self.round()).await?
    }

    /// Renews what is ours, drops what is not any more, takes what is free.
    async fn round(&self) -> Result<()> {
        let begun = Instant::now();
        let tx = table::begin_own(self.outbox.db()).await?;
        let (deadline, renewed) = cursor::renew(&tx, &self.owner, self.ttl).await?;
        if self.holds_all() && renewed == self.slots.len() as u64 {
            tx.commit().await?;
            self.prolong(deadline);
            return Ok(());
        }
        let holders = cursor::holders(&tx).await?;
        tx.commit().await?;
        let is_mine = |holder: &Holder| holder.owner.as_deref() == Some(self.owner.as_str());
        for holder in &holders {
            let Some(slot) = self.slots.get(&holder.shard) else {
                continue;
            };
            slot.send_if_modified(|lease| match is_mine(holder) {
                true => renew(lease, holder.epoch, deadline),
                false => lease.take().is_some(),
            });
        }
        for holder in holders.iter().filter(|holder| holder.is_free && !is_mine(holder)) {
            // What is ours must be renewed in time, whatever there is to take.
            let left = (self.ttl / 3).saturating_sub(begun.elapsed());
            if !left.is_zero() {
                self.take(&holder.shard, left).await;
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

    /// Takes a lease if it can; one that cannot be taken keeps nobody from the others.
    async fn take(&self, shard: &Shard, patience: Duration) {
        let Some(slot) = self.slots.get(shard) else {
            return;
        };
        let taken = answered_within(patience, self.try_take(shard)).await;
        match taken.unwrap_or_else(Err) {
            Ok(None) => {}
            Ok(lease) => {
                slot.send_replace(lease);
            }
            Err(error) => {
                tracing::warn!(route = %shard.route, shard = shard.number, error = error.report(), "lease could not be taken");
            }
        }
    }

    async fn try_take(&self, shard: &Shard) -> Result<Option<Lease>> {
        let tx = table::begin_own(self.outbox.db()).await?;
        let taken = cursor::take(&tx, shard, &self.owner, self.ttl).await?;
        tx.commit().await?;
        Ok(taken)
    }
}

/// Renews a lease. Whether its line must hear of it: one whose lease was running need not.
fn renew(lease: &mut Option<Lease>, epoch: i64, deadline: Instant) -> bool {
    let before = lease.replace(Lease { epoch, deadline });
    before.is_none_or(|before| before.epoch != epoch || before.deadline <= Instant::now())
}
