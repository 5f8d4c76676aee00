//! A registry of one instance, in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Result, clock};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Admitted, Connection, EVICTED_MAX, Eviction, Limits, Registry};
use crate::fan_out::{LocalFanOut, Message};

/// Limits the connections of one instance. It holds memory for connections that have a place, and for those that gave way within the
/// last two leases.
#[derive(Debug)]
pub struct LocalRegistry {
    kinds: Mutex<Kinds>,
    fan_out: Arc<LocalFanOut>,
}

/// The members of each kind of connection.
type Kinds = HashMap<String, HashMap<String, Member>>;

/// The connections of a member.
#[derive(Debug, Default)]
struct Member {
    /// The connections with a place, each with the end of its lease; the oldest first.
    places: BTreeMap<Place, Instant>,
    /// Connections that gave way, each with the time until which it is remembered, in the order of these times.
    evicted: VecDeque<(Uuid, Instant)>,
}

/// A connection with its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    since: i64,
    id: Uuid,
}

/// The two clocks of one call.
#[derive(Clone, Copy, Debug)]
struct Now {
    ms: i64,
    instant: Instant,
}

impl Now {
    fn read() -> Self {
        let ms = clock::now().unix_timestamp_nanos() / 1_000_000;
        Self {
            ms: i64::try_from(ms).unwrap_or(i64::MAX),
            instant: Instant::now(),
        }
    }
}

impl LocalRegistry {
    /// A registry without connections that announces evictions here.
    pub fn new(fan_out: Arc<LocalFanOut>) -> Self {
        Self {
            kinds: Mutex::default(),
            fan_out,
        }
    }

    fn enter(&self, limits: &Limits, connection: &Connection) -> Result<Admitted> {
        limits.check(&connection.member)?;
        let mut kinds = self.kinds();
        let members = kinds.entry(limits.kind.clone()).or_default();
        let member = members.entry(connection.member.clone()).or_default();
        let admitted = member.enter(limits, connection, Now::read());
        if let Admitted::Yes { evicted, .. } = &admitted {
            // Under the lock, so that announcements are in the order of the evictions.
            let announce = |id: &Uuid| announcement(limits, &connection.member, *id);
            self.fan_out.publish(&evicted.iter().map(announce).collect::<Vec<_>>());
        }
        Ok(admitted)
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn announcement(limits: &Limits, member: &str, connection: Uuid) -> Message {
    let eviction = Eviction {
        member: member.to_owned(),
        connection,
    };
    eviction.message(&limits.evictions)
}

#[async_trait]
impl Registry for LocalRegistry {
    async fn admit(&self, limits: &Limits, connection: &Connection) -> Result<Admitted> {
        let new = Connection {
            since: None,
            ..connection.clone()
        };
        self.enter(limits, &new)
    }

    async fn renew(&self, limits: &Limits, connections: &[Connection]) -> Result<Vec<Admitted>> {
        connections
            .iter()
            .map(|connection| self.enter(limits, connection))
            .collect()
    }

    async fn leave(&self, limits: &Limits, connections: &[Connection]) -> Result<()> {
        let mut kinds = self.kinds();
        let Some(members) = kinds.get_mut(&limits.kind) else {
            return Ok(());
        };
        let now = Now::read();
        for Connection { member: name, id, .. } in connections {
            let Some(member) = members.get_mut(name) else { continue };
            member.places.retain(|place, _| place.id != *id);
            if member.is_empty(now) {
                members.remove(name);
            }
        }
        Ok(())
    }

    async fn sweep(&self, limits: &Limits, lifetime: Duration) -> Result<u64> {
        let mut kinds = self.kinds();
        let Some(members) = kinds.get_mut(&limits.kind) else {
            return Ok(0);
        };
        let now = Now::read();
        let lifetime_ms = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.ms.saturating_sub(lifetime_ms);
        let mut removed = 0;
        members.retain(|_, member| {
            removed += member.sweep(oldest, now);
            !member.is_empty(now)
        });
        Ok(removed)
    }

    async fn list(&self, limits: &Limits, member: &str) -> Result<Vec<Connection>> {
        limits.check(member)?;
        let (kinds, now) = (self.kinds(), Now::read());
        let found = kinds.get(&limits.kind).and_then(|members| members.get(member));
        let places = found.into_iter().flat_map(|found| &found.places);
        let open = places.filter(|(_, lease_ends_at)| **lease_ends_at > now.instant);
        let connection = |(place, _): (&Place, _)| Connection {
            member: member.to_owned(),
            id: place.id,
            since: Some(place.since),
        };
        Ok(open.map(connection).collect())
    }
}

impl Member {
    /// Gives a connection its place, or keeps it.
    fn enter(&mut self, limits: &Limits, connection: &Connection, now: Now) -> Admitted {
        self.forget_ended(now);
        let id = connection.id;
        if self.evicted.iter().any(|(evicted, _)| *evicted == id) {
            return Admitted::Evicted;
        }
        let known = self.places.keys().find(|place| place.id == id).map(|place| place.since);
        let since = known.or(connection.since).unwrap_or_else(|| self.next_since(now));
        self.places.insert(Place { since, id }, now.instant + limits.lease);
        let evicted = self.evict(limits, now);
        match evicted.contains(&id) {
            true => Admitted::Evicted,
            false => Admitted::Yes { since, evicted },
        }
    }

    /// The age of a new connection: younger than all others, also if they came in the same millisecond or the clock went back.
    fn next_since(&self, now: Now) -> i64 {
        let youngest = self.places.last_key_value();
        now.ms
            .max(youngest.map_or(i64::MIN, |(place, _)| place.since.saturating_add(1)))
    }

    /// Takes the places of the oldest connections above the limit.
    fn evict(&mut self, limits: &Limits, now: Now) -> Vec<Uuid> {
        let limit = usize::try_from(limits.limit).unwrap_or(usize::MAX);
        let mut evicted = Vec::new();
        while self.places.len() > limit
            && let Some((Place { id, .. }, _)) = self.places.pop_first()
        {
            self.evicted.push_back((id, now.instant + 2 * limits.lease));
            evicted.push(id);
        }
        while self.evicted.len() > EVICTED_MAX {
            self.evicted.pop_front();
        }
        evicted
    }

    /// Forgets what has ended. Returns how many places are free by that.
    fn forget_ended(&mut self, now: Now) -> usize {
        let before = self.places.len();
        self.places.retain(|_, lease_ends_at| *lease_ends_at > now.instant);
        self.evicted.retain(|(_, until)| *until > now.instant);
        before - self.places.len()
    }

    /// Removes connections that began before this time or whose lease has ended. Returns how many.
    fn sweep(&mut self, oldest: i64, now: Now) -> u64 {
        let ended = self.forget_ended(now);
        let before = self.places.len();
        self.places.retain(|place, _| place.since >= oldest);
        u64::try_from(ended + before - self.places.len()).unwrap_or(u64::MAX)
    }

    fn is_empty(&self, now: Now) -> bool {
        self.places.is_empty() && self.evicted.iter().all(|(_, until)| *until <= now.instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_goes_with_the_connections() {
        let registry = LocalRegistry::new(Arc::default());
        let limits = Limits {
            kind: "sse".to_owned(),
            evictions: "sse:evictions".to_owned(),
            limit: 1,
            lease: Duration::from_secs(60),
        };
        let open = async || {
            let connection = Connection::new("42", Uuid::now_v7());
            registry.admit(&limits, &connection).await.unwrap();
            connection
        };
        for _ in 0..EVICTED_MAX + 10 {
            open().await;
        }
        let remembered = registry.kinds()["sse"]["42"].evicted.len();
        assert_eq!(remembered, EVICTED_MAX);
        let last = open().await;
        registry.leave(&limits, &[last]).await.unwrap();
        assert_eq!(registry.kinds()["sse"].len(), 1, "some are remembered");
        tokio::time::advance(2 * limits.lease).await;
        registry.sweep(&limits, Duration::from_secs(1800)).await.unwrap();
        assert!(registry.kinds()["sse"].is_empty());
    }
}
