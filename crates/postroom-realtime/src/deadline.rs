//! When a connection ends by itself: at the end of its life, or when its token expires.

use std::time::Duration;

use crate::Reason;

/// How long before the expiry of its token a client is warned.
const WARNED_BEFORE: Duration = Duration::from_secs(60);

/// The deadlines of a connection, as times since the start of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadlines {
    life: Duration,
    token: Option<Duration>,
    /// Whether the client was warned about this token.
    is_warned: bool,
}

impl Deadlines {
    /// The deadlines of a connection that begins now; `random` in 0..1 spreads the ends of connections that began together.
    pub(crate) fn new(now: Duration, lifetime: Duration, token: Option<Duration>, random: f64) -> Self {
        Self {
            life: now + lifetime.mul_f64(0.8 + 0.2 * random.clamp(0.0, 1.0)),
            token,
            is_warned: false,
        }
    }

    /// A new token.
    pub(crate) fn refresh(&mut self, token: Option<Duration>) {
        self.token = token;
        self.is_warned = false;
    }

    /// When the connection ends, and why.
    pub(crate) fn end(&self) -> (Duration, Reason) {
        match self.token {
            Some(token) if token <= self.life => (token, Reason::Expired),
            _ => (self.life, Reason::Lifetime),
        }
    }

    /// When the client is warned that its token expires, if it was not and if that comes before the end of its life.
    pub(crate) fn warning(&self) -> Option<Duration> {
        let token = self.token.filter(|token| !self.is_warned && *token <= self.life);
        token.map(|token| token.saturating_sub(WARNED_BEFORE))
    }

    /// Notes down that the client was warned; answers in how many seconds its token expires.
    pub(crate) fn warn(&mut self, now: Duration) -> Option<u64> {
        self.warning().filter(|at| *at <= now)?;
        self.is_warned = true;
        self.token.map(|token| token.saturating_sub(now).as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_ends_with_its_life_or_its_token() {
        let check = |token: Option<u64>, random: f64, expected: (u64, Reason)| {
            let deadlines = Deadlines::new(seconds(100), seconds(1_000), token.map(seconds), random);
            let (at, reason) = deadlines.end();
            assert_eq!((at.as_secs(), reason), expected, "{token:?} {random}");
        };
        check(None, 0.0, (900, Reason::Lifetime));
        check(None, 1.0, (1_100, Reason::Lifetime));
        check(Some(500), 0.0, (500, Reason::Expired));
        check(Some(899), 0.0, (899, Reason::Expired));
        check(Some(901), 0.0, (900, Reason::Lifetime));
        check(Some(50), 0.5, (50, Reason::Expired));
    }

    #[test]
    fn a_client_is_warned_once_per_token() {
        let mut deadlines = Deadlines::new(seconds(0), seconds(10_000), Some(seconds(300)), 0.0);
        assert_eq!(deadlines.warning(), Some(seconds(240)));
        assert_eq!(deadlines.warn(seconds(239)), None);
        assert_eq!(deadlines.warn(seconds(241)), Some(59));
        assert_eq!(deadlines.warn(seconds(242)), None);
        deadlines.refresh(Some(seconds(600)));
        assert_eq!(deadlines.warn(seconds(540)), Some(60));
        deadlines.refresh(Some(seconds(9_000)));
        assert_eq!(deadlines.warning(), None, "its life ends before");
        deadlines.refresh(None);
        assert_eq!(deadlines.warning(), None);
    }
}
