//! How fast members may act in chat, over all instances and connections.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use postroom_host::{Host, Problem};
use postroom_shared::rate_limit::{FallbackRateLimiter, Taken};
use tokio::time::sleep;

/// Requests of one member in one second: messages, edits, deletes and joins.
const EACH_SECOND_MAX: u32 = 200;
const WINDOW: Duration = Duration::from_secs(1);
/// Windows that a message over a WebSocket waits before it is refused.
const WINDOWS_MAX: usize = 5;

/// Counts what members do. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<OnceLock<FallbackRateLimiter>>);

impl Pace {
    /// Counts one request; an error if these are too many.
    pub(crate) async fn check(&self, host: &Host, member_id: i64) -> Result<(), Problem> {
        match self.take(host, member_id).await.is_allowed {
            true => Ok(()),
            false => Err(too_fast()),
        }
    }

    /// Counts one message of a connection. A client that is too fast waits, which slows it down: it does not have to send again.
    /// Answers whether it was allowed in the end.
    pub(crate) async fn wait(&self, host: &Host, member_id: i64) -> bool {
        for _ in 0..WINDOWS_MAX {
            let taken = self.take(host, member_id).await;
            if taken.is_allowed {
                return true;
            }
            sleep(taken.resets_in.min(WINDOW)).await;
        }
        false
    }

    async fn take(&self, host: &Host, member_id: i64) -> Taken {
        let shared = || FallbackRateLimiter::new(Arc::clone(&host.shared.rate_limiter));
        let limiter = self.0.get_or_init(shared);
        let key = format!("community:chat:{member_id}");
        limiter.take(&key, EACH_SECOND_MAX, WINDOW).await.taken()
    }
}

/// The answer to a member who is too fast.
pub(crate) fn too_fast() -> Problem {
    let detail = format!("a member sends at most {EACH_SECOND_MAX} messages in a second; wait a second");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_fast", detail)
}
