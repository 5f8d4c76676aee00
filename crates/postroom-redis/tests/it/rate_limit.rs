//! The rate limit suite on Redis, and what Redis shows of clients.

use std::sync::Arc;
use std::time::Duration;

use postroom::ErrorKind;
use postroom_redis::Redis;
use postroom_shared::RateLimiter;
use postroom_testkit::rate_limit_suite::Instances;
use redis::AsyncTypedCommands;

use crate::site::{options, private, shared};

/// Two brokers with connections of their own, as two processes have them.
async fn two() -> Instances {
    let url = shared().await.url;
    [(); 2].map(|()| Arc::new(Redis::open(&url, options()).unwrap().rate_limiter()) as Arc<dyn RateLimiter>)
}

mod suite {
    postroom_testkit::rate_limit_suite!(super::two);
}

#[tokio::test]
async fn a_key_hides_the_client_and_goes_with_its_window() {
    let site = private().await;
    let limiter = site.broker.rate_limiter();
    limiter.take("203.0.113.9", 5, Duration::from_mins(1)).await.unwrap();
    let mut client = site.client().await;
    let keys = client.keys("*").await.unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(
        keys[0].starts_with("postroom:rate:") && !keys[0].contains("203"),
        "{keys:?}"
    );
    let left: i64 = redis::cmd("PTTL").arg(&keys[0]).query_async(&mut client).await.unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_counter_without_an_end_gets_one() {
    let site = private().await;
    let limiter = site.broker.rate_limiter();
    let take = async || limiter.take("a", 5, Duration::from_mins(1)).await.unwrap();
    take().await;
    let mut client = site.client().await;
    let key = client.keys("*").await.unwrap().remove(0);
    redis::cmd("PERSIST").arg(&key).exec_async(&mut client).await.unwrap();
    assert_eq!(take().await.remaining, 3);
    let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut client).await.unwrap();
    assert!(left > 0, "{left}");
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error_and_counts_again_when_it_is_back() {
    let mut site = private().await;
    let limiter = site.broker.rate_limiter();
    let take = async || limiter.take("a", 5, Duration::from_mins(1)).await;
    take().await.unwrap();
    site.server.as_mut().unwrap().stop().await.unwrap();
    assert_eq!(take().await.unwrap_err().kind(), ErrorKind::Unavailable);
    site.server.as_mut().unwrap().restart().await.unwrap();
    assert!(take().await.unwrap().is_allowed);
}
