//! The hub: opens connections, and delivers frames to the connections that follow their streams. Nothing here makes a frame wait.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom::{CancellationToken, Error, ErrorKind, Result, clock};
use postroom_host::prometheus_client::registry::Registry;
use postroom_shared::registry::{self, Admitted, Limits};
use postroom_shared::{SharedState, Slot};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use uuid::Uuid;

use crate::audience::{Audience, Audiences};
use crate::client::Client;
use crate::connection::Connection;
use crate::deadline::Deadlines;
use crate::evicted::{Evicted, Names};
use crate::lease::{self, Leases};
use crate::link::Link;
use crate::listener;
use crate::metrics::HubMetrics;
use crate::peer::{Offered, Peer};
use crate::peers::Peers;
use crate::presence::Presence;
use crate::repair::{self, Repairs};
use crate::wheel::{self, Due, Wheel};
use crate::{Frame, HubSettings, Journal, Reason, Refused, StreamKey, drain};

/// How long the shared state may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a new connection waits for a hub that begins to listen.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);
/// A client that connects while the shared state is away is told to try again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The connections of this process, and the streams that they follow. Cloning it is cheap.
///
/// It does nothing before [`Hub::run`]: make that a part of the module.
#[derive(Clone, Debug)]
pub struct Hub {
    pub(crate) core: Arc<Core>,
}

/// Everything that the connections share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: HubSettings,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) slot: Slot,
    pub(crate) audiences: Audiences,
    pub(crate) peers: Peers,
    pub(crate) wheel: Wheel,
    pub(crate) repairs: Repairs,
    pub(crate) leases: Leases,
    pub(crate) evicted: Evicted,
    pub(crate) link: Link,
    pub(crate) presence: Arc<Presence>,
    pub(crate) metrics: HubMetrics,
    begun: Instant,
}

impl Hub {
    /// A hub that reads streams from this journal and shares connections through this state.
    pub fn new(settings: HubSettings, journal: Arc<dyn Journal>, shared: Slot) -> Self {
        let core = Core {
            wheel: Wheel::new(settings.ping_every),
            settings,
            journal,
            slot: shared,
            audiences: Audiences::new(),
            peers: Peers::new(),
            repairs: Repairs::default(),
            leases: Leases::default(),
            evicted: Evicted::default(),
            link: Link::new(),
            presence: Arc::new(Presence::new()),
            metrics: HubMetrics::default(),
            begun: Instant::now(),
        };
        Self { core: Arc::new(core) }
    }

    /// Opens a connection that follows these streams, each from the client's cursor.
    pub async fn open(&self, client: Client, streams: Vec<(StreamKey, Option<String>)>) -> Result<Connection, Refused> {
        let opened = Core::open(&self.core, client, streams).await;
        match &opened {
            Ok(_) => self.core.metrics.opened(),
            Err(refused) => self.core.metrics.refused(refused.as_str()),
        }
        opened
    }

    /// Publishes frames to the connections of all instances. Call it after the commit. It is best effort: a frame that is lost is
    /// read from the journal within seconds.
    pub async fn publish(&self, frames: &[(StreamKey, Frame)]) -> Result<()> {
        if let Some((stream, _)) = frames.iter().find(|(stream, _)| !stream.is_valid()) {
            let says = format!("{stream:?} is no name of a stream: it needs 1 to 200 bytes on one line");
            return Err(Error::invalid(says));
        }
        let channel = self.core.settings.channel();
        let message = |(stream, frame): &(StreamKey, Frame)| listener::message(&channel, stream, frame);
        let messages: Vec<_> = frames.iter().map(message).collect();
        self.core
            .shared(async |shared| shared.fan_out.publish(&messages).await)
            .await
    }

    /// Ends a connection of a member, on whichever instance it is, as if it had given way to a younger one.
    pub async fn disconnect(&self, member: &str, connection: Uuid) -> Result<()> {
        let Some(limits) = &self.core.settings.limits else {
            let says = "connections of a hub without limits cannot be ended by name";
            return Err(Error::new(ErrorKind::Unsupported, says));
        };
        let message = listener::disconnection(&limits.evictions, member, connection);
        self.core
            .shared(async |shared| shared.fan_out.publish(&[message]).await)
            .await
    }

    /// The connections of a member, on all instances, the oldest first.
    pub async fn connections_of(&self, member: &str) -> Result<Vec<registry::Connection>> {
        let Some(limits) = &self.core.settings.limits else {
            let says = "connections of a hub without limits are not counted, so there is no list of them";
            return Err(Error::new(ErrorKind::Unsupported, says));
        };
        self.core
            .shared(async |shared| shared.registry.list(limits, member).await)
            .await
    }

    /// The open connections of this process.
    pub fn connections(&self) -> usize {
        self.core.peers.len()
    }

    /// Adds its metrics to the page; call it in [`postroom_host::Module::metrics`].
    pub fn metrics(&self, registry: &mut Registry) {
        self.core.metrics.register(&self.core.settings.name, registry);
    }

    /// Works until the stop: listens, repairs, pings and renews. Then it ends all connections, evenly.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let inner = CancellationToken::new();
        let mut parts = JoinSet::new();
        parts.spawn(listener::run(Arc::clone(&self.core), inner.clone()));
        parts.spawn(repair::run(Arc::clone(&self.core), inner.clone()));
        parts.spawn(repair::run_checks(Arc::clone(&self.core), inner.clone()));
        parts.spawn(wheel::run(Arc::clone(&self.core), inner.clone()));
        parts.spawn(lease::run(Arc::clone(&self.core), inner.clone()));
        parts.spawn(sweep(Arc::clone(&self.core), inner.clone()));
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = parts.join_next() => {
                let says = format!("a part of the hub {} ended: {ended:?}", self.core.settings.name);
                Err(Error::new(ErrorKind::Failed, says))
            }
        };
        drain::run(&self.core).await;
        inner.cancel();
        while parts.join_next().await.is_some() {}
        outcome
    }
}

/// Removes connections that other processes have left behind.
async fn sweep(hub: Arc<Core>, stop: CancellationToken) {
    let Some(limits) = &hub.settings.limits else {
        return stop.cancelled().await;
    };
    let lifetime = hub.settings.lifetime;
    let mut turns = interval(2 * lifetime);
    while stop.run_until_cancelled(turns.tick()).await.is_some() {
        match hub
            .shared(async |shared| shared.registry.sweep(limits, lifetime).await)
            .await
        {
            Ok(count) => hub.metrics.swept(count),
            Err(error) => {
                tracing::warn!(
                    hub = hub.settings.name,
                    error = error.report(),
                    "old connections were not swept"
                );
            }
        }
    }
}

/// The answer of something that takes at most this long.
pub(crate) async fn within<T>(patience: Duration, doing: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(patience, work).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => {
            let says = format!("{doing}: no answer within {} s", patience.as_secs());
            Err(Error::new(ErrorKind::Unavailable, says))
        }
    }
}

impl Core {
    /// The time since the hub was made.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// An answer of the shared state.
    pub(crate) async fn shared<T>(&self, ask: impl AsyncFnOnce(&SharedState) -> Result<T>) -> Result<T> {
        let shared = self.slot.get()?;
        within(PATIENCE, "ask the shared state", ask(shared)).await
    }

    async fn open(
        hub: &Arc<Self>,
        client: Client,
        streams: Vec<(StreamKey, Option<String>)>,
    ) -> Result<Connection, Refused> {
        if hub.evicted.includes(&client, hub.now()) {
            return Err(Refused::Evicted);
        }
        if !hub.link.opens(OPEN_PATIENCE).await {
            return Err(unavailable());
        }
        // The connection is known before the registry is asked: an eviction may come at once. Dropped, it takes itself away.
        let connection = Connection::new(hub, client);
        if hub.link.is_draining() {
            return Err(unavailable());
        }
        if let Some(limits) = &hub.settings.limits {
            hub.admit(&connection, limits).await?;
        }
        for (stream, cursor) in streams {
            connection.follow(stream, cursor.as_deref()).await?;
        }
        Ok(connection)
    }

    /// Asks the registry for a place.
    async fn admit(&self, connection: &Connection, limits: &Limits) -> Result<(), Refused> {
        let peer = &connection.peer;
        peer.begin_admission();
        let registered = peer.registered();
        let admitted = self
            .shared(async |shared| shared.registry.admit(limits, &registered).await)
            .await;
        match admitted {
            Ok(Admitted::Yes { since, evicted }) => {
                peer.admitted(since);
                for id in evicted {
                    self.evict(id, None);
                }
                Ok(())
            }
            Ok(Admitted::Evicted) => Err(Refused::Evicted),
            Err(error) => {
                tracing::warn!(
                    hub = self.settings.name,
                    error = error.report(),
                    "a connection was not admitted"
                );
                Err(unavailable())
            }
        }
    }

    /// The deadlines of a connection that begins now.
    pub(crate) fn deadlines(&self, client: &Client) -> Deadlines {
        let token = client.until.map(|until| self.deadline(until));
        Deadlines::new(self.now(), self.settings.lifetime, token, rand::random())
    }

    /// A time of the wall clock, as a time since the hub was made.
    pub(crate) fn deadline(&self, until: OffsetDateTime) -> Duration {
        let left = Duration::try_from(until - clock::now()).unwrap_or_default();
        self.now() + left
    }

    /// Delivers a frame to the connections of its stream.
    pub(crate) fn deliver(&self, stream: &StreamKey, audience: &Audience, frame: &Frame) {
        let (mut queued, mut is_missing) = (0, false);
        for subscription in audience.iter() {
            match subscription.offer(frame) {
                Offered::Queued => queued += 1,
                Offered::Dropped => {}
                Offered::Missing => is_missing = true,
                Offered::Full => self.watch_stall(&subscription.peer),
            }
        }
        self.metrics.delivered(queued);
        if is_missing {
            self.metrics.gap();
            self.repairs.dirty(stream);
        }
    }

    /// Looks later whether this client takes anything.
    pub(crate) fn watch_stall(&self, peer: &Arc<Peer>) {
        if !peer.is_watched.swap(true, Ordering::Relaxed) {
            let taken = peer.queue().taken();
            self.wheel
                .schedule(peer, self.now() + self.settings.stall_max, Due::Stall(taken));
        }
    }

    /// Ends a connection, unless it has ended.
    pub(crate) fn end(&self, peer: &Peer, reason: Reason) {
        let names = (reason == Reason::Evicted).then(|| Names::of(peer));
        if let Some(names) = &names {
            self.evicted.remember(names, self.now());
        }
        let has_ended = peer.end(reason);
        if let Some(names) = names.filter(|_| has_ended) {
            self.leases.announce(names);
        }
    }

    /// Ends the connection with this id, if this process has it. If a member is given, it must be a connection of that member.
    pub(crate) fn evict(&self, id: Uuid, member: Option<&str>) {
        let peer = self.peers.get(id);
        let is_named = |peer: &Arc<Peer>| member.is_none_or(|member| *member == *peer.client.member);
        if let Some(peer) = peer.filter(is_named) {
            self.end(&peer, Reason::Evicted);
        }
    }
}

/// The answer to a client that connects while the shared state is away.
pub(crate) fn unavailable() -> Refused {
    Refused::Unavailable {
        retry_after: RETRY_AFTER,
    }
}
