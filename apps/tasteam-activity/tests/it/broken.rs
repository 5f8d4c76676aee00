//! Everything that collection needs is broken at once: the table is locked, the broker that feeds it is killed, PostHog refuses. No
//! request notices, and everything arrives afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use postroom::dead::{self, Selection};
use postroom_redis::{Options, Redis};
use postroom_testkit::fake_posthog::{FakePosthog, Outcome, PROJECT_API_KEY};
use postroom_testkit::redis_server;
use postroom_testkit::stage::Scenery;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
use serde_json::json;

use crate::site::Site;

/// Requests of each kind while everything is broken.
const ROUNDS: usize = 100;

/// Tasteam with collection that is fed by this Redis and feeds this PostHog.
async fn site(fresh: Fresh, redis: &str, posthog: &FakePosthog) -> Site {
    let settings = json!({
        "mode": "INTERNAL_PLUS_POSTHOG",
        "posthog": {
            "enabled": true,
            "host": posthog.url,
            "project_api_key": PROJECT_API_KEY,
            "timeout_ms": 60_000, // longer than a busy machine takes
            "circuit_open_seconds": 1,
            "start": "beginning",
        },
    });
    let scenery = Scenery {
        broker: Some(Arc::new(Redis::open(redis, Options::default()).unwrap())),
        ..Scenery::default()
    };
    Site::with(fresh, settings, scenery).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_broken_at_once_harms_no_request_and_loses_nothing_postgres() {
    let (mut redis, posthog) = (redis_server::redis(&[]).await, FakePosthog::open().await);
    let site = site(fresh::postgres().await, &redis.url(), &posthog).await;
    let (restaurant, group) = (site.restaurant("국밥집").await, site.group("점심 모임").await);
    site.review(restaurant).await;
    until("a review comes through Redis to PostHog", || async {
        posthog.uuids().len() == 1
    })
    .await;

    let locker = site.fresh.writers(1).await;
    let tx = locker.begin().await.unwrap();
    let lock = "lock table user_activity_event in access exclusive mode";
    tx.execute_unprepared(lock).await.unwrap();
    redis.kill().unwrap();
    posthog.always(Some(Outcome::status(503)));
    for round in 0..ROUNDS {
        site.review(restaurant).await;
        site.join_as(group, round, "EMAIL").await;
        site.get("/tasteam/search?q=noodles").await;
    }
    assert_eq!(posthog.uuids().len(), 1, "nothing came through meanwhile");
    tx.rollback().await.unwrap();
    redis.restart().await.unwrap();
    posthog.always(None);

    let all = 1 + 3 * ROUNDS;
    let stored = site.until_stored(all).await;
    let stored: BTreeSet<String> = stored.into_iter().map(|one| one.event.event_id).collect();
    until("everything is at PostHog", || async { posthog.uuids().len() >= all }).await;
    assert_eq!(posthog.uuids(), stored);
    assert_eq!(posthog.seen().len(), all, "each event was always the same");
    let metrics = site.client.get("/metrics").await.body;
    let delays = format!(r#"activity_sink_delay_seconds_count{{sink="posthog"}} {all}"#);
    assert!(metrics.as_str().unwrap().contains(&delays), "{metrics}");
    let dead = dead::list(site.fresh.db(), &Selection::default(), None, 10).await;
    assert_eq!(dead.unwrap().len(), 0, "no dead letter");
}
