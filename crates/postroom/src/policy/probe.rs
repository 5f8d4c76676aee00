//! The probe policy: when a destination that is unavailable is asked again.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest wait that a destination can ask for. A wait of the policy itself may be longer.
pub const AFTER_MAX: Duration = Duration::from_secs(15 * 60);
/// Allowed intervals of [`Probe::Every`].
pub const PROBE_EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// Probes come later by up to this part of their wait, so that many routes do not probe at once. They never come earlier.
const SPREAD: f64 = 0.1;

/// When a destination that is unavailable is asked again. A destination that asks for a longer wait gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// After 0.1 s, then after twice as long each time, up to 5 s. A probe sends one entry, and then a few of other keys. A restart
    /// probes at once.
    #[default]
    Backoff,
    /// One entry per interval and shard. The store keeps the time of the next probe, so a restart sends nothing earlier.
    Every(Duration),
}

impl Probe {
    /// Sends one entry per interval while the destination is unavailable.
    pub const fn every(interval: Duration) -> Self {
        Self::Every(interval)
    }

    /// How long a route sends nothing after an outage was met; `None` if the back-off of the process decides. The destination wants
    /// to be left alone for `after`; `backoff` is the wait of the process; `roll` in `0..1` spreads the wait.
    pub(crate) fn wait(self, after: Option<Duration>, backoff: Duration, roll: f64) -> Option<Duration> {
        let after = after.map(|after| after.min(AFTER_MAX));
        let wait = match self {
            Self::Backoff => after?.max(backoff),
            Self::Every(interval) => interval.max(after.unwrap_or_default()),
        };
        Some(wait.mul_f64(1.0 + SPREAD * roll.clamp(0.0, 1.0)))
    }

    /// The longest wait: a time in the store that lies further ahead comes from a clock that was set back.
    pub(crate) fn wait_max(self) -> Duration {
        let wait = match self {
            Self::Backoff => AFTER_MAX,
            Self::Every(interval) => interval.max(AFTER_MAX),
        };
        wait.mul_f64(1.0 + SPREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_wait_counts_and_is_never_shortened() {
        let secs = Duration::from_secs;
        let minute = Probe::every(secs(60));
        let check = |probe: Probe, after: Option<u64>, roll: f64, expected: Option<Duration>| {
            let wait = probe.wait(after.map(secs), secs(5), roll);
            assert_eq!(wait, expected, "{probe:?} after {after:?}, roll {roll}");
            assert!(wait.unwrap_or_default() <= probe.wait_max());
        };
        check(Probe::Backoff, None, 0.0, None);
        check(Probe::Backoff, Some(0), 0.0, Some(secs(5)));
        check(Probe::Backoff, Some(30), 0.0, Some(secs(30)));
        check(minute, None, 0.0, Some(secs(60)));
        check(minute, None, 1.0, Some(secs(66)));
        check(minute, Some(30), 0.0, Some(secs(60)));
        check(minute, Some(90), 0.0, Some(secs(90)));
        check(minute, Some(100_000), 0.0, Some(AFTER_MAX));
        check(Probe::every(secs(3600)), Some(90), 0.0, Some(secs(3600)));
    }
}
