//! How often each failure happened: a run in which nothing happened proves nothing.

use std::path::Path;

use serde::Serialize;

use super::fate::Failure;
use super::journal;

/// How often each failure happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// A relay process was killed while the effect of a handler was not committed.
    pub interrupted: u64,
    /// A relay process was paused for longer than its lease, and woken.
    pub paused: u64,
    /// Entries were seen parked.
    pub parked: u64,
    /// Entries were seen holding their key.
    pub held: u64,
    /// Dead letters were retried by the operator.
    pub retried: u64,
    /// Attempts were refused.
    pub refused: u64,
    /// Attempts were rejected, which makes a dead letter at once.
    pub rejected: u64,
    /// Dead letters were discarded by the operator.
    pub discarded: u64,
    /// Entries were replayed.
    pub replayed: u64,
    /// Scheduled events were released.
    pub scheduled: u64,
    /// Scheduled events were cancelled before that.
    pub cancelled: u64,
    /// Handlers and destinations panicked.
    pub panics: u64,
    /// Handlers waited for a lock for longer than their timeout.
    pub hangs: u64,
    /// Attempts could not reach what they needed.
    pub unavailable: u64,
}

impl Counts {
    /// Failures that must happen for a run to prove anything, and did not.
    pub fn missing(&self) -> Vec<&'static str> {
        let wanted = [
            (self.interrupted, "interrupted"),
            (self.parked, "parked"),
            (self.held, "held"),
            (self.retried, "retried"),
            (self.discarded, "discarded"),
            (self.replayed, "replayed"),
        ];
        let missing = wanted.into_iter().filter(|(count, _)| *count == 0);
        missing.map(|(_, name)| name).collect()
    }

    /// Adds what the relay processes have written down.
    pub(super) fn add_failures(&mut self, folder: &Path) {
        let failures = journal::failures(folder);
        let count = |failure| failures.get(&failure).copied().unwrap_or(0);
        self.refused += count(Failure::Refused);
        self.rejected += count(Failure::Rejected);
        self.panics += count(Failure::Panicked);
        self.hangs += count(Failure::Hung);
        self.unavailable += count(Failure::Unavailable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_named() {
        let all = Counts {
            interrupted: 1,
            parked: 1,
            held: 1,
            retried: 1,
            discarded: 1,
            replayed: 1,
            ..Counts::default()
        };
        assert_eq!(all.missing(), Vec::<&str>::new());
        let calm = Counts {
            interrupted: 0,
            held: 0,
            ..all
        };
        assert_eq!(calm.missing(), ["interrupted", "held"]);
    }
}
