//! Everything that the instances of a service share.

use std::sync::{Arc, OnceLock};

use postroom::{Error, ErrorKind, Result};

use crate::fan_out::LocalFanOut;
use crate::rate_limit::LocalRateLimiter;
use crate::registry::LocalRegistry;
use crate::tally::LocalTally;
use crate::ticket::LocalTickets;
use crate::{FanOut, RateLimiter, Registry, Tally, Tickets};

/// The shared state of a service, one port per kind. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct SharedState {
    /// Counts requests.
    pub rate_limiter: Arc<dyn RateLimiter>,
    /// Publishes messages to all instances.
    pub fan_out: Arc<dyn FanOut>,
    /// Limits connections per member. It announces evictions on `fan_out`.
    pub registry: Arc<dyn Registry>,
    /// Sums changes of counters that are not flushed yet.
    pub tally: Arc<dyn Tally>,
    /// Keeps tickets.
    pub tickets: Arc<dyn Tickets>,
    /// Whether several instances share it. If not, each instance is alone.
    pub is_shared: bool,
}

impl SharedState {
    /// The state of one instance alone, in memory.
    pub fn local() -> Self {
        let fan_out = Arc::new(LocalFanOut::new());
        Self {
            rate_limiter: Arc::new(LocalRateLimiter::new()),
            registry: Arc::new(LocalRegistry::new(Arc::clone(&fan_out))),
            fan_out,
            tally: Arc::new(LocalTally::new()),
            tickets: Arc::new(LocalTickets::new()),
            is_shared: false,
        }
    }
}

/// A place for the shared state, for parts of a module that are made before its process. All clones are one place.
///
/// ```
/// use postroom_shared::{SharedState, Slot};
///
/// let slot = Slot::default();
/// let part = slot.clone();
/// assert!(part.get().is_err(), "there is no process yet");
/// slot.fill(SharedState::local());
/// assert!(!part.get()?.is_shared);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<OnceLock<SharedState>>);

impl Slot {
    /// The shared state; [`ErrorKind::Unavailable`] before the process is put together.
    pub fn get(&self) -> Result<&SharedState> {
        let empty = || {
            Error::new(
                ErrorKind::Unavailable,
                "the shared state is not there before the process is put together",
            )
        };
        self.0.get().ok_or_else(empty)
    }

    /// Puts the shared state in. A place that is filled keeps what it has.
    pub fn fill(&self, shared: SharedState) {
        self.0.get_or_init(|| shared);
    }
}

impl From<SharedState> for Slot {
    /// A place that is filled.
    fn from(shared: SharedState) -> Self {
        let slot = Self::default();
        slot.fill(shared);
        slot
    }
}
