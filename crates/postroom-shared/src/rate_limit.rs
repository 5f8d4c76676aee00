//! Rate limits: at most so many requests of a client in a window of time, counted over all instances.

mod fallback;
mod local;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;

pub use fallback::{FallbackRateLimiter, TakenFrom};
pub use local::LocalRateLimiter;

/// Counts requests per key in fixed windows.
///
/// The contract, which `postroom_testkit::rate_limit_suite` checks:
///
/// 1. The window of a key begins with its first request and lasts `window`. The first `limit` requests in it are allowed, the others
///    are not. The first request after its end begins the next window.
/// 2. A refused request extends nothing.
/// 3. All instances that share the state count together: concurrent requests are never allowed beyond the limit.
/// 4. Keys are independent of each other. A key is any text.
/// 5. The callers of one key always pass the same `limit` and `window`.
#[async_trait]
pub trait RateLimiter: fmt::Debug + Send + Sync {
    /// Counts one request of this key. An error means that the shared state cannot be reached; the request may be counted or not.
    async fn take(&self, key: &str, limit: u32, window: Duration) -> Result<Taken>;
}

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whether the request is within the limit.
    pub is_allowed: bool,
    /// Requests that are left in this window.
    pub remaining: u32,
    /// The time until the window ends.
    pub resets_in: Duration,
}
