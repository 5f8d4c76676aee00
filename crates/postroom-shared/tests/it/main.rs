//! The suite of each port on its local implementation.

use std::future::ready;
use std::sync::Arc;

use postroom_shared::{LocalRateLimiter, RateLimiter};
use postroom_testkit::rate_limit_suite::Instances;

/// One instance has all the state there is.
async fn local() -> Instances {
    let limiter: Arc<dyn RateLimiter> = Arc::new(LocalRateLimiter::new());
    ready([Arc::clone(&limiter), limiter]).await
}

mod rate_limit {
    postroom_testkit::rate_limit_suite!(crate::local);
}
