//! The retry policy: when a refused entry is tried again, and when it is given up.

use std::time::Duration;

use time::OffsetDateTime;

/// How often and how long an entry is tried before it becomes a dead letter.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The wait before each further attempt.
    pub delays: Delays,
    /// Give up after this many attempts.
    pub attempts_max: Option<u32>,
    /// Give up on an entry that is older than this; one that was never tried is still tried once.
    pub age_max: Option<Duration>,
}

/// The wait between two attempts.
#[derive(Clone, Debug, PartialEq)]
pub enum Delays {
    /// Always the same.
    Fixed(Duration),
    /// Doubled each time up to `max`, spread at random over its upper half so that many keys do not return at once.
    Exponential {
        /// The first wait.
        first: Duration,
        /// The longest wait.
        max: Duration,
    },
    /// These, one after the other; the last one repeats.
    Steps(Vec<Duration>),
}

/// The decision about a refused entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Try again after this long.
    RetryAfter(Duration),
    /// Give up: it becomes a dead letter.
    Dead,
}

impl Default for Retry {
    /// Exponential from one second to five minutes, ten attempts.
    fn default() -> Self {
        Self {
            delays: Delays::Exponential {
                first: Duration::from_secs(1),
                max: Duration::from_secs(300),
            },
            attempts_max: Some(10),
            age_max: None,
        }
    }
}

impl Retry {
    /// The verdict on an entry that was refused for the `attempts`-th time. `roll` in `0..1` spreads the delay.
    pub fn judge(&self, attempts: u32, created_at: OffsetDateTime, now: OffsetDateTime, roll: f64) -> Verdict {
        if self.attempts_max.is_some_and(|max| attempts >= max) || self.is_expired(created_at, now) {
            Verdict::Dead
        } else {
            Verdict::RetryAfter(self.delays.after(attempts, roll))
        }
    }

    /// Whether an entry is older than the route wants to deliver.
    pub fn is_expired(&self, created_at: OffsetDateTime, now: OffsetDateTime) -> bool {
        self.age_max.is_some_and(|max| now - created_at > max)
    }
}

impl Delays {
    /// The wait after the `attempts`-th attempt. `roll` in `0..1` spreads it.
    pub(crate) fn after(&self, attempts: u32, roll: f64) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Exponential { first, max } => {
                let doublings = attempts.saturating_sub(1).min(30);
                let full = first.saturating_mul(1 << doublings).min(*max);
                full.mul_f64(0.5 + roll.clamp(0.0, 1.0) / 2.0)
            }
            Self::Steps(steps) => {
                let at = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
                steps.get(at).or(steps.last()).copied().unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn delays_follow_their_policy() {
        let check = |delays: Delays, attempts: u32, roll: f64, expected: Duration| {
            assert_eq!(delays.after(attempts, roll), expected, "{delays:?} after {attempts}");
        };
        check(Delays::Fixed(secs(2)), 9, 0.0, secs(2));
        let exponential = || Delays::Exponential {
            first: secs(1),
            max: secs(60),
        };
        check(exponential(), 1, 1.0, secs(1));
        check(exponential(), 3, 1.0, secs(4));
        check(exponential(), 3, 0.0, secs(2));
        check(exponential(), 4_000_000_000, 1.0, secs(60));
        let steps = || Delays::Steps(vec![secs(60), secs(300)]);
        check(steps(), 1, 0.5, secs(60));
        check(steps(), 2, 0.5, secs(300));
        check(steps(), 7, 0.5, secs(300));
        check(Delays::Steps(vec![]), 1, 0.5, secs(0));
    }

    #[test]
    fn an_entry_dies_by_attempts_or_by_age() {
        let retry = Retry {
            delays: Delays::Fixed(secs(1)),
            attempts_max: Some(3),
            age_max: Some(secs(300)),
        };
        let check = |attempts, age_s: u64, expected| {
            assert_eq!(
                retry.judge(attempts, NOW - secs(age_s), NOW, 0.0),
                expected,
                "{attempts} attempts, {age_s} s old"
            );
        };
        check(1, 0, Verdict::RetryAfter(secs(1)));
        check(2, 300, Verdict::RetryAfter(secs(1)));
        check(3, 0, Verdict::Dead);
        check(1, 301, Verdict::Dead);
    }
}
