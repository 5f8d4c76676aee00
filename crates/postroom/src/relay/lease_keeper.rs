//! The lease keeper: takes, renews and gives back the leases of all workers of a process, in one statement for all.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sea_orm::DatabaseConnection;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::{Condition, Error, ErrorKind, Result};
use crate::relay::health::Health;
use crate::state::cursor::{self, Holder, Lease, Renewed, Shard};
use crate::store::outbox::with_timeout_of;
use crate::store::table;

/// The longest wait before looking for an expired lease.
const LOOK: Duration = Duration::from_secs(1);
/// The wait before another try at a lease whose row was locked: its own worker locks it for milliseconds.
const RENEW_AGAIN: Duration = Duration::from_millis(100);

/// How often a process that ends tries to give its leases back.
const RELEASE_TRIES: u32 = 30;

/// Keeps the leases of one process.
#[derive(Debug)]
pub(crate) struct LeaseKeeper {
    /// Connections of its own: no work of a worker keeps leases from being renewed.
    db: DatabaseConnection,
    owner: String,
    ttl: Duration,
    slots: HashMap<Shard, watch::Sender<Option<Lease>>>,
    health: Arc<Health>,
    /// Shards whose rows are gone, which was logged.
    reported: Mutex<HashSet<Shard>>,
}

impl LeaseKeeper {
    pub(crate) fn new(db: DatabaseConnection, owner: String, ttl: Duration, health: Arc<Health>) -> Self {
        Self {
            health,
            db,
            owner,
            ttl,
            slots: HashMap::new(),
            reported: Mutex::default(),
        }
    }

    /// A shard to keep the lease of, and how its worker hears of it.
    pub(crate) fn slot(&mut self, shard: Shard) -> watch::Receiver<Option<Lease>> {
        self.slots
            .entry(shard)
            .or_insert_with(|| watch::Sender::new(None))
            .subscribe()
    }

    /// Keeps leases until `stop`. The caller ends the workers first and then calls [`LeaseKeeper::release`].
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let round = self.round_in_time().await;
            self.health.renewed(round.as_ref().err());
            let is_complete = round.unwrap_or_else(|error| {
                tracing::warn!(
                    error = error.report(),
                    "leases could not be renewed; workers stop when theirs run out"
                );
                true
            });
            let pause = if is_complete { self.pause() } else { RENEW_AGAIN };
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    /// Gives every lease back, so that others need not wait for it to expire. Tries again while another session has locked some:
    /// the lease keeper of another process does for milliseconds, while it looks for its own.
    pub(crate) async fn release(&self) -> Result<()> {
        for _ in 0..RELEASE_TRIES {
            if self.try_release().await? {
                return Ok(());
            }
            tokio::time::sleep(RENEW_AGAIN).await;
        }
        Ok(())
    }

    /// Gives back what is not locked; answers whether that was all.
    async fn try_release(&self) -> Result<bool> {
        let tx = table::begin_own(&self.db).await?;
        cursor::release(&tx, &self.owner).await?;
        let holders = cursor::holders(&tx).await?;
        tx.commit().await?;
        Ok(!holders.iter().any(|holder| self.owns(holder)))
    }

    fn pause(&self) -> Duration {
        let third = self.ttl / 3;
        if self.holds_all() { third } else { third.min(LOOK) }
    }

    fn holds_all(&self) -> bool {
        self.slots.values().all(|slot| slot.borrow().is_some())
    }

    /// A round with a deadline, because a database may never answer.
    async fn round_in_time(&self) -> Result<bool> {
        with_timeout_of(self.ttl, self.round()).await?
    }

    /// Renews the leases of this process, drops those that it has lost, takes those that are free. Answers whether each of its
    /// own was renewed.
    async fn round(&self) -> Result<bool> {
        let begun = Instant::now();
        let tx = table::begin_own(&self.db).await?;
        let renewed = cursor::renew(&tx, &self.owner, self.ttl).await?;
        if self.holds_all() && renewed.shards.len() == self.slots.len() {
            tx.commit().await?;
            self.prolong(renewed.deadline);
            return Ok(true);
        }
        let holders = cursor::holders(&tx).await?;
        tx.commit().await?;
        let is_complete = self.learn(&holders, &renewed);
        for holder in holders.iter().filter(|holder| holder.is_free && !self.owns(holder)) {
            // The leases that this process has must be renewed in time, however many there are to take.
            let left = (self.ttl / 3).saturating_sub(begun.elapsed());
            if !left.is_zero() {
                self.take(&holder.shard, left).await;
            }
        }
        Ok(is_complete)
    }

    /// Tells the workers what they have; answers whether each lease of this process was renewed.
    fn learn(&self, holders: &[Holder], renewed: &Renewed) -> bool {
        let mut is_complete = true;
        for holder in holders {
            let Some(slot) = self.slots.get(&holder.shard) else {
                continue;
            };
            let is_renewed = renewed.shards.contains(&holder.shard);
            is_complete &= is_renewed || !self.owns(holder);
            slot.send_if_modified(|lease| match self.owns(holder) {
                true if is_renewed => renew(lease, holder.epoch, renewed.deadline),
                true => false, // it keeps the deadline that it has
                false => lease.take().is_some(),
            });
        }
        self.find_forgotten(holders);
        is_complete
    }

    /// Routes of this process that have no row any more: an operator or a process with other settings has forgotten them.
    fn find_forgotten(&self, holders: &[Holder]) {
        let known: HashSet<&Shard> = holders.iter().map(|holder| &holder.shard).collect();
        for (shard, slot) in self.slots.iter().filter(|(shard, _)| !known.contains(shard)) {
            slot.send_if_modified(|lease| lease.take().is_some());
            self.health.not_taken(shard, &forgotten(shard));
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.insert(shard.clone()) {
                tracing::error!(route = %shard.route, shard = shard.number, error = forgotten(shard).report(), "route is not delivered");
            }
        }
    }

    fn owns(&self, holder: &Holder) -> bool {
        holder.owner.as_deref() == Some(self.owner.as_str())
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
        let taken = with_timeout_of(patience, self.try_take(shard)).await;
        match taken.unwrap_or_else(Err) {
            // Another process may have taken it meanwhile; then it is not free in the next round.
            Ok(None) => self.health.not_taken(shard, &locked(shard)),
            Ok(lease) => {
                slot.send_replace(lease);
            }
            Err(error) => {
                self.health.not_taken(shard, &error);
                tracing::warn!(route = %shard.route, shard = shard.number, error = error.report(), "lease could not be taken");
            }
        }
    }

    async fn try_take(&self, shard: &Shard) -> Result<Option<Lease>> {
        let tx = table::begin_own(&self.db).await?;
        let taken = cursor::take(&tx, shard, &self.owner, self.ttl).await?;
        tx.commit().await?;
        Ok(taken)
    }
}

/// Why a lease that is free cannot be taken.
fn locked(shard: &Shard) -> Error {
    let says = format!(
        "no lease of route {:?} shard {}: its row in outbox_cursor is locked by another session",
        shard.route, shard.number
    );
    Error::new(ErrorKind::Unavailable, says).meaning(Condition::Locked)
}

/// Why a lease cannot be taken whose row is gone.
fn forgotten(shard: &Shard) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!(
            "route {:?} was forgotten while this process has it; restart this process, then the route begins as a new one",
            shard.route
        ),
    )
}

/// Renews a lease. Whether its worker must hear of it: one whose lease was running need not.
fn renew(lease: &mut Option<Lease>, epoch: i64, deadline: Instant) -> bool {
    let before = lease.replace(Lease { epoch, deadline });
    before.is_none_or(|before| before.epoch != epoch || before.deadline <= Instant::now())
}
