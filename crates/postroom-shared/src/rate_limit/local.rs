//! A rate limit of one instance, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use tokio::time::Instant;

use super::{RateLimiter, Taken};

/// Keys that are remembered, some megabytes. The oldest window is forgotten first.
const KEYS_MAX: usize = 50_000;

/// Counts the requests of one instance. Its memory has a bound: with more than 50,000 keys in their windows at once, it forgets the
/// oldest window, and that key begins a new one.
#[derive(Debug, Default)]
pub struct LocalRateLimiter {
    windows: Mutex<Windows>,
}

impl LocalRateLimiter {
    /// A limiter that has counted nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one request of this key.
    pub fn take(&self, key: &str, limit: u32, window: Duration) -> Taken {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.take(key, limit, window, Instant::now())
    }
}

#[async_trait]
impl RateLimiter for LocalRateLimiter {
    async fn take(&self, key: &str, limit: u32, window: Duration) -> Result<Taken> {
        Ok(self.take(key, limit, window))
    }
}

#[derive(Debug, Default)]
struct Windows {
    by_key: HashMap<String, Window>,
    /// The keys of `by_key`, in the order in which their windows began.
    order: VecDeque<String>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    ends_at: Instant,
    taken: u32,
}

impl Windows {
    fn take(&mut self, key: &str, limit: u32, length: Duration, now: Instant) -> Taken {
        self.forget_ended(now);
        if self.by_key.get(key).is_none_or(|window| window.ends_at <= now) {
            self.begin(key, now + length);
        }
        let Some(window) = self.by_key.get_mut(key) else {
            return Taken::of(0, limit, length);
        };
        window.taken = window.taken.saturating_add(1);
        Taken::of(window.taken, limit, window.ends_at - now)
    }

    /// Begins a window. A key whose last window has ended moves to the end of the order.
    fn begin(&mut self, key: &str, ends_at: Instant) {
        let window = Window { ends_at, taken: 0 };
        if self.by_key.insert(key.to_owned(), window).is_some() {
            self.order.retain(|known| known != key);
        }
        self.order.push_back(key.to_owned());
        if self.by_key.len() > KEYS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        let has_ended = |windows: &Self| {
            let oldest = windows.order.front().and_then(|key| windows.by_key.get(key));
            oldest.is_some_and(|window| window.ends_at <= now)
        };
        while has_ended(self) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(key) = self.order.pop_front() {
            self.by_key.remove(&key);
        }
    }
}

impl Taken {
    /// The answer to the request with this number in a window that ends after `resets_in`.
    pub fn of(number: u32, limit: u32, resets_in: Duration) -> Self {
        Self {
            is_allowed: number <= limit,
            remaining: limit.saturating_sub(number),
            resets_in,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_window_begins_with_the_first_request_and_ends_after_its_length() {
        let limiter = LocalRateLimiter::new();
        let take = || limiter.take("a", 2, MINUTE);
        tokio::time::advance(MINUTE / 2).await;
        assert_eq!(take(), Taken::of(1, 2, MINUTE));
        tokio::time::advance(MINUTE / 4).await;
        assert_eq!(take(), Taken::of(2, 2, MINUTE * 3 / 4));
        tokio::time::advance(MINUTE / 2).await;
        let refused = take();
        assert_eq!((refused.is_allowed, refused.resets_in), (false, MINUTE / 4));
        tokio::time::advance(MINUTE / 4).await;
        assert_eq!(take(), Taken::of(1, 2, MINUTE), "the next window");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_has_a_bound_and_windows_that_ended_are_forgotten_first() {
        let limiter = LocalRateLimiter::new();
        limiter.take("first", 1, MINUTE);
        for number in 0..KEYS_MAX - 1 {
            limiter.take(&number.to_string(), 1, MINUTE);
        }
        assert!(!limiter.take("first", 1, MINUTE).is_allowed, "it is remembered");
        limiter.take("one more", 1, MINUTE);
        assert_eq!(limiter.windows.lock().unwrap().by_key.len(), KEYS_MAX);
        assert!(limiter.take("first", 1, MINUTE).is_allowed, "the oldest is forgotten");
        tokio::time::advance(MINUTE).await;
        limiter.take("later", 1, MINUTE);
        let windows = limiter.windows.lock().unwrap();
        assert_eq!((windows.by_key.len(), windows.order.len()), (1, 1));
    }
}
