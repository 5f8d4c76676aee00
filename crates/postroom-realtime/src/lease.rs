//! The places of connections in the registry: renewed at each ping, given back at the end. In batches, and never on the way of a
//! frame.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::{CancellationToken, Result};
use postroom_shared::registry::{Admitted, Connection, Limits};
use tokio::sync::Notify;

use crate::Reason;
use crate::evicted::Names;
use crate::hub::Core;
use crate::listener;
use crate::peer::Peer;

/// Places in one call of the registry.
const BATCH_MAX: usize = 500;
/// Places that wait to be given back while the registry is away. Beyond this their leases end by themselves.
const LEAVES_MAX: usize = 100_000;
/// After this time the registry is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// How long changes wait for company.
const GATHER: Duration = Duration::from_millis(50);

/// The changes that the registry must be told.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    renewals: Vec<Arc<Peer>>,
    leaves: Vec<Connection>,
    evicted: Vec<Names>,
}

impl Leases {
    /// Renews the lease of a peer soon.
    pub(crate) fn renew(&self, peer: &Arc<Peer>) {
        if peer.since().is_some() && !peer.is_renewing.swap(true, Ordering::Relaxed) {
            self.pending().renewals.push(Arc::clone(peer));
            self.changed.notify_one();
        }
    }

    /// Gives back the place of a peer soon.
    pub(crate) fn leave(&self, peer: &Peer) {
        let mut pending = self.pending();
        if peer.has_place() && pending.leaves.len() < LEAVES_MAX {
            pending.leaves.push(peer.registered());
            self.changed.notify_one();
        }
    }

    /// Tells all instances that a client was evicted.
    pub(crate) fn announce(&self, names: Names) {
        let mut pending = self.pending();
        if pending.evicted.len() < LEAVES_MAX {
            pending.evicted.push(names);
            self.changed.notify_one();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_leaves(&self) -> Vec<Connection> {
        let mut pending = self.pending();
        let rest = pending.leaves.len().saturating_sub(BATCH_MAX);
        pending.leaves.split_off(rest)
    }

    fn take_renewals(&self) -> Vec<Arc<Peer>> {
        let mut pending = self.pending();
        let rest = pending.renewals.len().saturating_sub(BATCH_MAX);
        pending.renewals.split_off(rest)
    }
}

/// Tells the registry until the stop, then gives back what is left.
pub(crate) async fn run(hub: Arc<Core>, stop: CancellationToken) {
    let Some(limits) = hub.settings.limits.clone() else {
        return stop.cancelled().await;
    };
    while !stop.is_cancelled() {
        let pause = match tell(&hub, &limits).await {
            Ok(0) => {
                stop.run_until_cancelled(hub.leases.changed.notified()).await;
                GATHER
            }
            Ok(_) => Duration::ZERO,
            Err(error) => {
                tracing::warn!(
                    hub = hub.settings.name,
                    error = error.report(),
                    "places of connections were not renewed"
                );
                RETRY
            }
        };
        stop.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
    while let Ok(1..) = leave(&hub, &limits).await {}
}

/// Sends one batch of each kind; answers how many items they contained.
async fn tell(hub: &Core, limits: &Limits) -> Result<usize> {
    let announced = announce(hub).await?;
    let left = leave(hub, limits).await?;
    Ok(announced + left + renew(hub, limits).await?)
}

/// Best effort: if an instance does not know that a client was evicted, the client can come back and evict another connection.
async fn announce(hub: &Core) -> Result<usize> {
    let evicted = std::mem::take(&mut hub.leases.pending().evicted);
    if evicted.is_empty() {
        return Ok(0);
    }
    let channel = hub.settings.channel();
    let messages: Vec<_> = evicted.iter().map(|names| listener::evicted(&channel, names)).collect();
    hub.shared(async |shared| shared.fan_out.publish(&messages).await)
        .await?;
    Ok(messages.len())
}

async fn leave(hub: &Core, limits: &Limits) -> Result<usize> {
    let leaves = hub.leases.take_leaves();
    if leaves.is_empty() {
        return Ok(0);
    }
    let outcome = hub
        .shared(async |shared| shared.registry.leave(limits, &leaves).await)
        .await;
    hub.link.registry(outcome.is_ok(), hub.now());
    if outcome.is_err() {
        hub.leases.pending().leaves.extend_from_slice(&leaves);
    }
    outcome.map(|()| leaves.len())
}

async fn renew(hub: &Core, limits: &Limits) -> Result<usize> {
    let peers = hub.leases.take_renewals();
    if peers.is_empty() {
        return Ok(0);
    }
    let connections: Vec<_> = peers.iter().map(|peer| peer.registered()).collect();
    let outcome = hub
        .shared(async |shared| shared.registry.renew(limits, &connections).await)
        .await;
    hub.link.registry(outcome.is_ok(), hub.now());
    match outcome {
        Ok(answers) => {
            for (peer, answer) in peers.iter().zip(answers) {
                peer.is_renewing.store(false, Ordering::Relaxed);
                renewed(hub, peer, answer);
            }
            Ok(peers.len())
        }
        Err(error) => {
            let mut pending = hub.leases.pending();
            pending
                .renewals
                .extend(peers.into_iter().filter(|peer| !peer.queue().has_ended()));
            Err(error)
        }
    }
}

fn renewed(hub: &Core, peer: &Arc<Peer>, answer: Admitted) {
    match answer {
        Admitted::Yes { since, evicted } => {
            peer.admitted(since);
            for id in evicted {
                hub.evict(id, None);
            }
        }
        Admitted::Evicted => hub.end(peer, Reason::Evicted),
    }
}
