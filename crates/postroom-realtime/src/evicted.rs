//! The clients that were evicted, for a minute: they are refused if they come back by themselves.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::peer::Peer;

/// How long an evicted client is refused.
const KEPT: Duration = Duration::from_secs(60);
/// Beyond this number the oldest are forgotten.
const KEPT_MAX: usize = 100_000;

/// The names of an evicted client, as hashes: its tab, its connection and its ticket. Every instance must hash alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names(Vec<u64>);

impl Names {
    /// Under which names this client may come back.
    pub(crate) fn of(peer: &Peer) -> Self {
        let id = hash(("connection", peer.id.as_bytes()));
        let client = &peer.client;
        Self([Some(id), tab(client), client.ticket].into_iter().flatten().collect())
    }
}

/// The hash of a ticket.
pub(crate) fn ticket(ticket: &str) -> u64 {
    hash(("ticket", ticket))
}

fn tab(client: &Client) -> Option<u64> {
    let tab = client.tab.as_ref()?;
    Some(hash(("tab", &*client.member, &**tab)))
}

/// The same in all processes of a build: the keys of this hasher are fixed.
fn hash(name: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The clients that were evicted lately.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    until: HashMap<u64, Duration>,
    /// Oldest first.
    order: VecDeque<(Duration, u64)>,
}

impl Evicted {
    /// Remembers these names from now on for a minute.
    pub(crate) fn remember(&self, names: &Names, now: Duration) {
        let mut known = self.known();
        let until = now + KEPT;
        for name in &names.0 {
            known.until.insert(*name, until);
            known.order.push_back((until, *name));
        }
        known.forget(now);
    }

    /// Whether this client was evicted lately.
    pub(crate) fn includes(&self, client: &Client, now: Duration) -> bool {
        let previous = client.previous.map(|id| hash(("connection", id.as_bytes())));
        let names = [previous, tab(client), client.ticket];
        names.into_iter().flatten().any(|name| self.has(name, now))
    }

    /// Whether the client with this ticket was evicted lately.
    pub(crate) fn has(&self, name: u64, now: Duration) -> bool {
        self.known().until.get(&name).is_some_and(|until| *until > now)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn forget(&mut self, now: Duration) {
        while let Some((until, name)) = self.order.front().copied() {
            if until > now && self.order.len() <= KEPT_MAX {
                break;
            }
            self.order.pop_front();
            // It may have been evicted again since.
            if self.until.get(&name).is_some_and(|known| *known <= until) {
                self.until.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::deadline::Deadlines;

    fn peer(client: Client) -> Peer {
        Peer::new(client, Deadlines::new(Duration::ZERO, KEPT, None, 0.0), 0)
    }

    #[test]
    fn an_evicted_client_is_known_by_its_tab_its_connection_and_its_ticket_for_a_minute() {
        let evicted = Evicted::default();
        let mut client = Client::new("42").tab(Some("a"));
        client.ticket = Some(ticket("secret"));
        let peer = peer(client);
        evicted.remember(&Names::of(&peer), Duration::ZERO);
        let check = |client: Client, expected: bool| {
            assert_eq!(evicted.includes(&client, KEPT / 2), expected, "{client:?}");
            assert!(!evicted.includes(&client, KEPT), "a minute is over");
        };
        check(Client::new("42"), false);
        check(Client::new("42").tab(Some("a")), true);
        check(Client::new("42").tab(Some("b")), false);
        check(Client::new("43").tab(Some("a")), false);
        check(Client::new("42").previously(Some(peer.id)), true);
        check(Client::new("42").previously(Some(Uuid::now_v7())), false);
        assert!(evicted.has(ticket("secret"), KEPT / 2));
        assert!(!evicted.has(ticket("another"), KEPT / 2));
    }

    #[test]
    fn evicted_clients_are_forgotten() {
        let evicted = Evicted::default();
        let again = peer(Client::new("1"));
        for second in 0..300 {
            let now = Duration::from_secs(second);
            evicted.remember(&Names::of(&peer(Client::new("42"))), now);
            evicted.remember(&Names::of(&again), now);
        }
        let known = evicted.known();
        assert!(known.until.len() <= 61 && known.order.len() <= 121, "{known:?}");
    }
}
