//! The contract of a [`RateLimiter`], one function per clause.
//!
//! An implementation runs all of them with one line: `postroom_testkit::rate_limit_suite!(open);`, a function that opens two limiters
//! of two instances that share their state.

#![expect(clippy::expect_used, reason = "a clause asserts: a failed call fails it")]

use std::sync::Arc;
use std::time::Duration;

use postroom_shared::{RateLimiter, Taken};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::wait::until;

/// Two instances that share their state. One that has only local state gives the same limiter twice.
pub type Instances = [Arc<dyn RateLimiter>; 2];

/// Longer than a clause takes.
const LONG: Duration = Duration::from_mins(10);

/// Makes every clause a test of its own: `rate_limit_suite!(open);`.
#[macro_export]
macro_rules! rate_limit_suite {
    ($open:path) => {
        $crate::rate_limit_suite! { $open;
            requests_are_allowed_up_to_the_limit
            keys_are_independent
            a_key_is_any_text
            concurrent_requests_of_two_instances_share_the_limit
            a_window_ends_whatever_was_refused_in_it
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::rate_limit_suite::$clause($open().await).await;
            }
        )*
    };
}

async fn take(limiter: &Arc<dyn RateLimiter>, key: &str, limit: u32, window: Duration) -> Taken {
    limiter.take(key, limit, window).await.expect("a limiter that answers")
}

fn new_key() -> String {
    Uuid::now_v7().to_string()
}

/// Contract 1: the first `limit` requests are allowed, whichever instance gets them, and the answer says how many are left.
pub async fn requests_are_allowed_up_to_the_limit([one, two]: Instances) {
    let key = new_key();
    let mut last = LONG;
    for (limiter, remaining) in [(&one, 2), (&two, 1), (&one, 0)] {
        let taken = take(limiter, &key, 3, LONG).await;
        assert_eq!((taken.is_allowed, taken.remaining), (true, remaining), "{taken:?}");
        assert!(
            !taken.resets_in.is_zero() && taken.resets_in <= last,
            "{taken:?} after {last:?}"
        );
        last = taken.resets_in;
    }
    for limiter in [&one, &two] {
        let taken = take(limiter, &key, 3, LONG).await;
        assert_eq!((taken.is_allowed, taken.remaining), (false, 0), "{taken:?}");
        assert!(
            !taken.resets_in.is_zero() && taken.resets_in <= last,
            "{taken:?} after {last:?}"
        );
    }
}

/// Contract 4: a key that has used up its limit refuses no other.
pub async fn keys_are_independent([one, _]: Instances) {
    let (first, second) = (new_key(), new_key());
    assert!(take(&one, &first, 1, LONG).await.is_allowed);
    assert!(!take(&one, &first, 1, LONG).await.is_allowed);
    assert!(take(&one, &second, 1, LONG).await.is_allowed);
}

/// Contract 4: a key is any text.
pub async fn a_key_is_any_text([one, two]: Instances) {
    let name = new_key();
    let keys = ["", " ", "{", "a:b*", "한글", "\0", &"x".repeat(10_000)].map(|text| format!("{name}{text}"));
    for key in &keys {
        assert!(take(&one, key, 1, LONG).await.is_allowed, "{key:?}");
        assert!(!take(&two, key, 1, LONG).await.is_allowed, "{key:?}");
    }
}

/// Contract 3: of many concurrent requests over two instances, exactly as many are allowed as the limit says.
pub async fn concurrent_requests_of_two_instances_share_the_limit(instances: Instances) {
    let key = new_key();
    let mut requests = JoinSet::new();
    for number in 0..200 {
        let [one, two] = instances.clone();
        let (limiter, key) = (if number % 2 == 0 { one } else { two }, key.clone());
        requests.spawn(async move { take(&limiter, &key, 120, LONG).await.is_allowed });
    }
    let allowed = requests.join_all().await.into_iter().filter(|is_allowed| *is_allowed);
    assert_eq!(allowed.count(), 120);
}

/// Contract 1 and 2: a window ends, also if requests keep coming, and the next one allows the whole limit.
pub async fn a_window_ends_whatever_was_refused_in_it([one, _]: Instances) {
    let key = new_key();
    let window = Duration::from_millis(300);
    assert!(take(&one, &key, 2, window).await.is_allowed);
    take(&one, &key, 2, window).await;
    let begins_anew = async || {
        let taken = take(&one, &key, 2, window).await;
        taken.is_allowed && taken.remaining == 1
    };
    until("the window ends", begins_anew).await;
}
