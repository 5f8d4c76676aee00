//! A shared rate limit that goes on locally while the shared state cannot be reached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{LocalRateLimiter, RateLimiter, Taken};

/// After a failure the shared state is left alone for this long, so that requests do not all wait for its timeout.
const PAUSE: Duration = Duration::from_secs(1);

/// A rate limit that always answers: by the shared state, or by this instance alone while the shared state cannot be reached. Then
/// each instance allows up to the limit.
#[derive(Debug)]
pub struct FallbackRateLimiter {
    shared: Arc<dyn RateLimiter>,
    local: LocalRateLimiter,
    /// When the shared state is tried again after a failure.
    try_again_at: Mutex<Option<Instant>>,
}

/// Which counter has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenFrom {
    /// The counter that is meant to answer.
    Usual(Taken),
    /// The local one, because the shared state cannot be reached.
    Fallback(Taken),
}

impl TakenFrom {
    /// The answer.
    pub fn taken(self) -> Taken {
        match self {
            Self::Usual(taken) | Self::Fallback(taken) => taken,
        }
    }
}

impl FallbackRateLimiter {
    /// A limit by this shared state, or of this instance alone.
    pub fn new(shared: Arc<dyn RateLimiter>) -> Self {
        Self {
            shared,
            local: LocalRateLimiter::new(),
            try_again_at: Mutex::default(),
        }
    }

    /// Counts one request of this key.
    pub async fn take(&self, key: &str, limit: u32, window: Duration) -> TakenFrom {
        if !self.may_ask() {
            return TakenFrom::Fallback(self.local.take(key, limit, window));
        }
        match self.shared.take(key, limit, window).await {
            Ok(taken) => {
                self.resume();
                TakenFrom::Usual(taken)
            }
            Err(error) => {
                tracing::warn!(
                    error = error.report(),
                    "the shared rate limit cannot be reached; this instance counts alone"
                );
                self.pause();
                TakenFrom::Fallback(self.local.take(key, limit, window))
            }
        }
    }

    /// Whether this request may ask the shared state. After a pause only one request asks, until it has an answer.
    fn may_ask(&self) -> bool {
        let mut at = self.try_again_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match *at {
            None => true,
            Some(at) if now < at => false,
            Some(_) => {
                *at = Some(now + PAUSE);
                true
            }
        }
    }

    fn resume(&self) {
        *self.try_again_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn pause(&self) {
        let mut at = self.try_again_at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = Some(Instant::now() + PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use async_trait::async_trait;
    use postroom::{Error, ErrorKind, Result};

    use super::*;

    /// Shared state that can be away, and counts how often it is asked.
    #[derive(Debug, Default)]
    struct Shaky {
        is_away: AtomicBool,
        asked: AtomicU32,
    }

    #[async_trait]
    impl RateLimiter for Shaky {
        async fn take(&self, _key: &str, limit: u32, window: Duration) -> Result<Taken> {
            let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            match self.is_away.load(Ordering::Relaxed) {
                true => Err(Error::new(ErrorKind::Unavailable, "away")),
                false => Ok(Taken::of(number, limit, window)),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_counts_alone_until_the_shared_state_is_back() {
        let shared = Arc::new(Shaky::default());
        let limiter = FallbackRateLimiter::new(Arc::clone(&shared) as _);
        let take = async || limiter.take("a", 2, Duration::from_mins(1)).await;
        assert!(matches!(take().await, TakenFrom::Usual(_)));
        shared.is_away.store(true, Ordering::Relaxed);
        let allowed = [take().await, take().await, take().await];
        assert_eq!(allowed.map(|from| from.taken().is_allowed), [true, true, false]);
        assert!(matches!(allowed[2], TakenFrom::Fallback(_)));
        assert_eq!(shared.asked.load(Ordering::Relaxed), 2, "not asked during the pause");
        shared.is_away.store(false, Ordering::Relaxed);
        tokio::time::advance(PAUSE).await;
        assert!(matches!(take().await, TakenFrom::Usual(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_asks_for_all_whether_the_shared_state_is_back() {
        /// Does not answer for a second, and then fails.
        #[derive(Debug, Default)]
        struct Silent(AtomicU32);

        #[async_trait]
        impl RateLimiter for Silent {
            async fn take(&self, _key: &str, _limit: u32, _window: Duration) -> Result<Taken> {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE / 2).await;
                Err(Error::new(ErrorKind::Unavailable, "away"))
            }
        }

        let shared = Arc::new(Silent::default());
        let limiter = FallbackRateLimiter::new(Arc::clone(&shared) as _);
        let take = async || limiter.take("a", 9, Duration::from_mins(1)).await;
        take().await;
        tokio::time::advance(PAUSE).await;
        let answers = tokio::join!(take(), take(), take());
        assert!(matches!(
            answers,
            (TakenFrom::Fallback(_), TakenFrom::Fallback(_), TakenFrom::Fallback(_))
        ));
        assert_eq!(shared.0.load(Ordering::Relaxed), 2, "only one of the three asks");
    }
}
