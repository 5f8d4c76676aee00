//! The rate limit of clients: in headers, per client, and over several instances.

use std::sync::Arc;

use postroom_host::{Network, Serving};
use postroom_redis::{Options, Redis};
use postroom_shared::RateLimiter;
use postroom_testkit::client::Answer;
use postroom_testkit::fresh;
use postroom_testkit::redis_server::redis;
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::ingest_site::{EVENTS, Setup, Site, event, stored, token_of};

fn per_minute(limit: u32) -> Setup {
    Setup::with(json!({ "ingest_rate_limit_per_minute": limit }))
}

fn refused(answer: &Answer) {
    assert_eq!((answer.status, answer.code()), (429, "rate_limited"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn every_answer_says_what_is_left_of_the_limit() {
    let fresh = fresh::sqlite().await;
    let site = Site::set(&fresh, per_minute(3)).await;
    let left = |answer: &Answer| {
        assert_eq!(answer.header("ratelimit-policy"), Some("\"client\";q=3;w=60"));
        let limit = answer.header("ratelimit").unwrap().to_owned();
        let (left, time) = limit.split_once(";t=").unwrap();
        assert!((1..=60).contains(&time.parse::<u64>().unwrap()), "{limit}");
        left.to_owned()
    };
    assert_eq!(left(&site.send(&[event()]).await), "\"client\";r=2");
    let malformed = site.client.must("POST", EVENTS, &[], "{}").await;
    assert_eq!((malformed.status, left(&malformed).as_str()), (400, "\"client\";r=1"));
    assert_eq!(left(&site.send(&[event()]).await), "\"client\";r=0");
    let answer = site.send(&[event()]).await;
    refused(&answer);
    assert_eq!(left(&answer), "\"client\";r=0");
    assert_eq!(stored(&fresh).await, 2);
}

#[tokio::test]
async fn members_and_addresses_behind_trusted_proxies_have_limits_of_their_own() {
    let fresh = fresh::sqlite().await;
    let serving = Serving {
        trusted_proxies: vec!["127.0.0.1".parse::<Network>().unwrap()],
        ..Serving::default()
    };
    let site = Site::set(
        &fresh,
        Setup {
            serving,
            ..per_minute(1)
        },
    )
    .await;
    let from = async |address: &str| {
        let body = json!({ "events": [event()] }).to_string();
        let headers = [("x-forwarded-for", address)];
        site.client.must("POST", EVENTS, &headers, &body).await.status
    };
    assert_eq!((from("203.0.113.9").await, from("203.0.113.9").await), (200, 429));
    assert_eq!(from("203.0.113.10").await, 200);
    assert_eq!(
        (from("2001:db8::1").await, from("2001:db8::2").await),
        (200, 429),
        "one network"
    );
    assert_eq!(from("2001:db8:0:1::1").await, 200);
    for member in ["1", "2"] {
        let token = token_of(member);
        assert_eq!(site.send_as(&token, &[event()]).await.status, 200);
        refused(&site.send_as(&token, &[event()]).await);
    }
}

fn limiter(url: &str, prefix: &str) -> Arc<dyn RateLimiter> {
    let options = Options {
        stream: format!("{prefix}{{{{topic}}}}:{{number}}"),
        ..Options::default()
    };
    Arc::new(Redis::open(url, options).unwrap().rate_limiter())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_together_let_120_of_200_requests_through() {
    let url = std::env::var("POSTROOM_TEST_REDIS_URL").unwrap_or_else(|_| {
        panic!("POSTROOM_TEST_REDIS_URL is not set: `eval \"$(cargo xtask services up)\"` starts the services")
    });
    let prefix = format!("test-{}:", Uuid::now_v7().simple());
    let fresh = fresh::sqlite().await;
    let instance = async || {
        let setup = Setup {
            rate_limiter: Some(limiter(&url, &prefix)),
            ..Setup::with(json!({}))
        };
        Site::set(&fresh, setup).await
    };
    let sites = [instance().await, instance().await];
    let mut requests = JoinSet::new();
    for number in 0..200 {
        let client = sites[number % 2].client.clone();
        requests.spawn(async move { client.post(EVENTS, &json!({ "events": [] })).await });
    }
    let answers = requests.join_all().await;
    let (passed, others): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(passed.len(), 120);
    others.iter().for_each(refused);
}

#[tokio::test]
async fn without_redis_each_instance_counts_alone_and_says_so() {
    let mut server = redis(&[]).await;
    let fresh = fresh::sqlite().await;
    let setup = Setup {
        rate_limiter: Some(limiter(&server.url(), "postroom:")),
        ..per_minute(2)
    };
    let site = Site::set(&fresh, setup).await;
    assert_eq!(site.send(&[event()]).await.status, 200);
    server.stop().await.unwrap();
    let statuses = [
        site.send(&[event()]).await.status,
        site.send(&[event()]).await.status,
        site.send(&[event()]).await.status,
    ];
    assert_eq!(statuses, [200, 200, 429], "the limit of one instance");
    let page = site.client.get("/metrics").await.body;
    for line in [
        "activity_ingest_limit_fallbacks_total 3",
        "activity_ingest_limited_total 1",
        "activity_ingest_events_total{result=\"ok\"} 3",
    ] {
        assert!(page.as_str().unwrap().contains(line), "{line}: {page}");
    }
}
