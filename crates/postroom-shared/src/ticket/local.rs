//! Tickets of one instance, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use tokio::time::Instant;

use super::{Tickets, hash, random};

/// Tickets that are kept. The oldest is forgotten first.
const TICKETS_MAX: usize = 50_000;

/// Keeps the tickets of one instance. Its memory has a bound: with more than 50,000 tickets that are neither redeemed nor expired,
/// the oldest is worth nothing.
#[derive(Debug, Default)]
pub struct LocalTickets {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By their hashes.
    open: HashMap<String, Ticket>,
    /// The hashes, in the order in which the tickets were made.
    order: VecDeque<String>,
}

struct Ticket {
    content: String,
    expires_at: Instant,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

impl LocalTickets {
    /// No tickets yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Tickets for LocalTickets {
    async fn issue(&self, content: &str, lifetime: Duration) -> Result<String> {
        let ticket = random();
        let kept = Ticket {
            content: content.to_owned(),
            expires_at: Instant::now() + lifetime,
        };
        self.state().keep(hash(&ticket), kept);
        Ok(ticket)
    }

    async fn redeem(&self, ticket: &str) -> Result<Option<String>> {
        let found = self.state().open.remove(&hash(ticket));
        let valid = found.filter(|found| found.expires_at > Instant::now());
        Ok(valid.map(|found| found.content))
    }
}

impl State {
    fn keep(&mut self, hash: String, ticket: Ticket) {
        self.open.insert(hash.clone(), ticket);
        self.order.push_back(hash);
        let now = Instant::now();
        // Those that were redeemed or have expired are in the order until they are first in it.
        while self.order.len() > TICKETS_MAX || self.order.front().is_some_and(|first| self.is_over(first, now)) {
            if let Some(first) = self.order.pop_front() {
                self.open.remove(&first);
            }
        }
    }

    fn is_over(&self, hash: &str, now: Instant) -> bool {
        self.open.get(hash).is_none_or(|ticket| ticket.expires_at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_has_a_bound_and_goes_with_the_tickets() {
        let tickets = LocalTickets::new();
        let issue = async || tickets.issue("42", Duration::from_secs(30)).await.unwrap();
        let first = issue().await;
        let second = issue().await;
        for _ in 0..TICKETS_MAX - 1 {
            issue().await;
        }
        assert_eq!(tickets.redeem(&first).await.unwrap(), None, "the oldest is forgotten");
        assert!(tickets.redeem(&second).await.unwrap().is_some());
        tokio::time::advance(Duration::from_secs(30)).await;
        issue().await;
        let state = tickets.state();
        assert_eq!((state.open.len(), state.order.len()), (1, 1));
    }
}
