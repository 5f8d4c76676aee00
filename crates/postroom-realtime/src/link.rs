//! Whether the hub is connected with what the instances share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The state of the connection with the shared state, by the times since the start of the hub.
#[derive(Debug)]
pub(crate) struct Link {
    state: Mutex<State>,
    is_open: watch::Sender<Phase>,
}

/// The state of the hub, for a client that wants to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The hub does not listen yet, or not at this moment.
    Deaf,
    /// It listens.
    Open,
    /// The process stops.
    Draining,
}

/// Since when each part has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    deaf_since: Option<Duration>,
    registry_fails_since: Option<Duration>,
}

impl State {
    fn is_lost(self, now: Duration, after: Duration) -> bool {
        let is_long = |since: Option<Duration>| since.is_some_and(|since| now.saturating_sub(since) >= after);
        is_long(self.deaf_since) || is_long(self.registry_fails_since)
    }
}

impl Link {
    pub(crate) fn new() -> Self {
        let deaf = State {
            deaf_since: Some(Duration::ZERO),
            ..State::default()
        };
        Self {
            state: Mutex::new(deaf),
            is_open: watch::Sender::new(Phase::Deaf),
        }
    }

    /// The hub listens to the fan-out.
    pub(crate) fn listens(&self) {
        self.state().deaf_since = None;
        self.is_open.send_if_modified(|phase| {
            let was_deaf = *phase == Phase::Deaf;
            if was_deaf {
                *phase = Phase::Open;
            }
            was_deaf
        });
    }

    /// It does not listen any more, or cannot.
    pub(crate) fn is_deaf(&self, now: Duration) {
        self.state().deaf_since.get_or_insert(now);
        self.is_open.send_if_modified(|phase| {
            let was_open = *phase == Phase::Open;
            if was_open {
                *phase = Phase::Deaf;
            }
            was_open
        });
    }

    /// The registry answered, or did not.
    pub(crate) fn registry(&self, answered: bool, now: Duration) {
        let mut state = self.state();
        match answered {
            true => state.registry_fails_since = None,
            false => drop(state.registry_fails_since.get_or_insert(now)),
        }
    }

    pub(crate) fn drains(&self) {
        self.is_open.send_replace(Phase::Draining);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.is_open.borrow() == Phase::Draining
    }

    /// Whether the shared state has been out of reach for this long.
    pub(crate) fn is_lost(&self, now: Duration, after: Duration) -> bool {
        self.state().is_lost(now, after)
    }

    /// Waits at most this long until the hub listens.
    pub(crate) async fn opens(&self, patience: Duration) -> bool {
        let mut phase = self.is_open.subscribe();
        let known = phase.wait_for(|phase| *phase != Phase::Deaf);
        match tokio::time::timeout(patience, known).await {
            Ok(Ok(phase)) => *phase == Phase::Open,
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Waits until the process stops.
    pub(crate) async fn drained(&self) {
        let mut phase = self.is_open.subscribe();
        // The sender lives as long as the hub, so it cannot fail.
        drop(phase.wait_for(|phase| *phase == Phase::Draining).await);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(5);

    #[test]
    fn the_link_is_lost_when_either_part_fails_for_long() {
        let check = |deaf: Option<u64>, registry: Option<u64>, now: u64, expected: bool| {
            let state = State {
                deaf_since: deaf.map(Duration::from_secs),
                registry_fails_since: registry.map(Duration::from_secs),
            };
            assert_eq!(
                state.is_lost(Duration::from_secs(now), AFTER),
                expected,
                "{state:?} at {now}"
            );
        };
        check(None, None, 1_000, false);
        check(Some(10), None, 14, false);
        check(Some(10), None, 15, true);
        check(None, Some(10), 14, false);
        check(None, Some(10), 15, true);
        check(Some(14), Some(10), 15, true);
    }

    #[test]
    fn the_first_failure_counts_until_the_first_success() {
        let link = Link::new();
        link.listens();
        for second in 10..15 {
            link.is_deaf(Duration::from_secs(second));
            link.registry(false, Duration::from_secs(second));
        }
        assert!(link.is_lost(Duration::from_secs(15), AFTER));
        link.listens();
        assert!(link.is_lost(Duration::from_secs(15), AFTER), "the registry still fails");
        link.registry(true, Duration::from_secs(15));
        assert!(!link.is_lost(Duration::from_secs(1_000), AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_a_moment_for_a_hub_that_begins() {
        let link = Link::new();
        assert!(!link.opens(AFTER).await);
        let (opened, ()) = tokio::join!(link.opens(AFTER), async {
            tokio::time::sleep(AFTER / 2).await;
            link.listens();
        });
        assert!(opened);
        link.drains();
        link.listens();
        assert!(!link.opens(AFTER).await, "a process that stops opens nothing");
    }
}
