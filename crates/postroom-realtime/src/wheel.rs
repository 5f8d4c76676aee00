//! The timer wheel: one timer for all connections. Each slot holds the connections that get their ping together; deadlines that come
//! before the next ping are kept apart, by tick.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use postroom::{CancellationToken, clock};
use tokio::time::{MissedTickBehavior, interval};

use crate::hub::Core;
use crate::list::List;
use crate::peer::Peer;
use crate::{Frame, Reason};

/// The time between two ticks. A deadline is kept within this time.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Deadlines that come soon, by their time.
type Soon = BTreeMap<Duration, Vec<(Weak<Peer>, Due)>>;

/// All connections, by the time of their ping.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Box<[Mutex<List<Peer>>]>,
    /// The slot of the next connection: in turn, so that all slots hold the same number.
    next: AtomicUsize,
    soon: Mutex<Soon>,
}

/// A deadline that comes before the next ping of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Its life or its token ends.
    End,
    /// The client is warned that its token expires.
    Warn,
    /// It has stalled if it has taken nothing since this number.
    Stall(u32),
}

impl Wheel {
    pub(crate) fn new(ping_every: Duration) -> Self {
        let slots = (ping_every.as_millis() / TICK.as_millis()).max(1);
        Self {
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            soon: Mutex::default(),
        }
    }

    /// The slot of a new connection.
    pub(crate) fn next_slot(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len()
    }

    pub(crate) fn add(&self, peer: Arc<Peer>) {
        if let Some(mut slot) = self.slot(peer.slot) {
            slot.add(peer);
        }
    }

    pub(crate) fn remove(&self, peer: &Peer) {
        if let Some(mut slot) = self.slot(peer.slot) {
            slot.remove(peer);
        }
    }

    /// The time until every connection had its turn.
    fn round(&self) -> Duration {
        TICK * u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Notes down what becomes due at this time.
    pub(crate) fn schedule(&self, peer: &Arc<Peer>, at: Duration, due: Due) {
        self.soon().entry(at).or_default().push((Arc::downgrade(peer), due));
    }

    /// Notes down the deadlines of a connection that come before its next turn.
    pub(crate) fn watch(&self, peer: &Arc<Peer>, now: Duration) {
        let horizon = now + self.round() + TICK;
        let deadlines = *peer.deadlines();
        let (end, _) = deadlines.end();
        if end <= horizon {
            self.schedule(peer, end, Due::End);
        }
        if let Some(warning) = deadlines.warning().filter(|warning| *warning <= horizon) {
            self.schedule(peer, warning, Due::Warn);
        }
    }

    fn take_due(&self, now: Duration) -> Vec<(Weak<Peer>, Due)> {
        let mut soon = self.soon();
        let later = soon.split_off(&(now + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut *soon, later);
        due.into_values().flatten().collect()
    }

    fn peers_in(&self, slot: usize) -> Vec<Arc<Peer>> {
        self.slot(slot % self.slots.len())
            .map(|slot| slot.elements().to_vec())
            .unwrap_or_default()
    }

    fn slot(&self, slot: usize) -> Option<MutexGuard<'_, List<Peer>>> {
        let slot = self.slots.get(slot)?;
        Some(slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn soon(&self) -> MutexGuard<'_, Soon> {
        self.soon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns the wheel until the stop.
pub(crate) async fn run(hub: Arc<Core>, stop: CancellationToken) {
    let mut ticks = interval(TICK);
    // After a standstill every slot still has its turn.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut slot = 0;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        turn(&hub, slot);
        slot += 1;
    }
}

/// One tick: pings and renews one slot, and does what is due.
fn turn(hub: &Core, slot: usize) {
    let now = hub.now();
    if hub.link.is_lost(now, hub.settings.unavailable_after) {
        for peer in hub.peers.all() {
            hub.end(&peer, Reason::Unavailable);
        }
    }
    let peers = hub.wheel.peers_in(slot);
    if !peers.is_empty() {
        let ping = ping();
        for peer in &peers {
            // A client whose queue is full needs no sign of life, and has none to give.
            peer.change(|queue| queue.push(&ping));
            hub.leases.renew(peer);
            hub.wheel.watch(peer, now);
        }
    }
    for (peer, due) in hub.wheel.take_due(now) {
        if let Some(peer) = peer.upgrade() {
            act(hub, &peer, due, now);
        }
    }
}

fn act(hub: &Core, peer: &Arc<Peer>, due: Due, now: Duration) {
    match due {
        Due::End => {
            // A new token may have moved the deadline.
            let (at, reason) = peer.deadlines().end();
            if at <= now {
                hub.end(peer, reason);
            }
        }
        Due::Warn => {
            let seconds = peer.deadlines().warn(now);
            if let Some(seconds) = seconds {
                peer.change(|queue| queue.force(expiring(seconds)));
            }
        }
        Due::Stall(taken) => {
            let (is_stalled, is_waiting, taken) = {
                let queue = peer.queue();
                (queue.is_stalled(taken), queue.has_more(), queue.taken())
            };
            match (is_stalled, is_waiting) {
                (true, true) => hub.end(peer, Reason::Slow),
                (false, true) => hub
                    .wheel
                    .schedule(peer, now + hub.settings.stall_max, Due::Stall(taken)),
                (_, false) => peer.is_watched.store(false, Ordering::Relaxed),
            }
        }
    }
}

fn ping() -> Frame {
    let at = clock::now().unix_timestamp_nanos() / 1_000_000;
    let sse = format!("event: ping\ndata: {{\"at\":{at}}}\n\n");
    Frame::control(sse.into(), format!("{{\"event\":\"ping\",\"at\":{at}}}"))
}

fn expiring(seconds: u64) -> Frame {
    let sse = format!("event: expiring\ndata: {{\"inSeconds\":{seconds}}}\n\n");
    Frame::control(
        Bytes::from(sse),
        format!("{{\"event\":\"expiring\",\"inSeconds\":{seconds}}}"),
    )
}
