//! Collection through Redis Streams: facts of the domain and entries of other programs take the same stream to the store.

use std::sync::Arc;
use std::time::Duration;

use postroom::clock;
use postroom::dead::{self, DeadLetter, Selection};
use postroom_activity::Source;
use postroom_redis::{Options, Redis};
use postroom_testkit::foreign::redis_cli;
use postroom_testkit::stage::Scenery;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
use serde_json::json;
use time::format_description::well_known::Rfc3339;

use crate::site::Site;

postroom_testkit::on_each_database! {
    a_strangers_entries_are_rows: a_strangers_entries_are_rows_sqlite, a_strangers_entries_are_rows_postgres,
        a_strangers_entries_are_rows_mariadb;
}

const GROUP: &str = "activity-store";

/// A stream of its own on the shared Redis, as another program sees it. Dropping it removes its keys.
pub(crate) struct Stream {
    url: String,
    prefix: String,
    name: String,
}

impl Stream {
    pub(crate) fn new() -> Self {
        let url = std::env::var("POSTROOM_TEST_REDIS_URL").unwrap_or_else(|_| {
            panic!("POSTROOM_TEST_REDIS_URL is not set: `eval \"$(cargo xtask services up)\"` starts the services")
        });
        let number = clock::now().unix_timestamp_nanos();
        let prefix = format!("test-{}-{number}:", std::process::id());
        Self {
            name: format!("{prefix}domain.user.activity"),
            url,
            prefix,
        }
    }

    /// The surroundings of modules that this stream feeds.
    fn scenery(&self) -> Scenery {
        let options = Options {
            stream: format!("{}{{topic}}", self.prefix),
            partitions: 1,
            lease: Duration::from_secs(1),
            ..Options::default()
        };
        Scenery {
            broker: Some(Arc::new(Redis::open(&self.url, options).unwrap())),
            ..Scenery::default()
        }
    }

    /// A site that this stream feeds.
    pub(crate) async fn feed(&self, fresh: Fresh) -> Site {
        Site::with(fresh, json!({}), self.scenery()).await
    }

    fn cli(&self, command: &str, arguments: &[&str]) -> String {
        let all = [&[command, self.name.as_str()], arguments].concat();
        redis_cli(&self.url, &all).trim().to_owned()
    }

    fn add(&self, fields: &[&str]) {
        self.cli("XADD", &[&["*"], fields].concat());
    }

    pub(crate) fn length(&self) -> usize {
        self.cli("XLEN", &[]).parse().unwrap()
    }

    /// How many entries the group has read and not acknowledged.
    fn pending(&self) -> usize {
        let summary = self.cli("XPENDING", &[GROUP]);
        summary.lines().next().unwrap().parse().unwrap()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for key in redis_cli(&self.url, &["--scan", "--pattern", &format!("*{}*", self.prefix)]).lines() {
            redis_cli(&self.url, &["DEL", key]);
        }
    }
}

/// The fields of an event, as a program writes them that knows neither Postroom nor CloudEvents.
fn flat(id: &str) -> Vec<&str> {
    vec![
        "eventId",
        id,
        "eventName",
        "review.created",
        "eventVersion",
        "v1",
        "occurredAt",
        "2026-02-18T10:00:00.123Z",
        "memberId",
        "42",
        "anonymousId",
        "",
        "properties",
        r#"{"reviewId":7,"hasImage":true}"#,
    ]
}

async fn letters(fresh: &Fresh) -> Vec<DeadLetter> {
    dead::list(fresh.db(), &Selection::default(), None, 10).await.unwrap()
}

async fn a_strangers_entries_are_rows(fresh: Fresh) {
    let stream = Stream::new();
    stream.add(&flat("e-1")); // before the group exists
    let site = stream.feed(fresh).await;
    stream.add(&flat("e-1"));
    let broken: Vec<&str> = flat("e-2")
        .into_iter()
        .map(|text| if text == "42" { "a secret" } else { text })
        .collect();
    stream.add(&broken);
    let document = json!({
        "eventId": "e-3", "eventName": "search.executed", "eventVersion": "v1", "occurredAt": "2026-02-18T10:00:01Z",
        "anonymousId": "a-1", "sessionId": "s-1", "source": "CLIENT", "properties": {},
    });
    stream.add(&["payload", &document.to_string()]);
    let stored = site.until_stored(2).await;
    let of = |id: &str| {
        stored
            .iter()
            .find(|row| row.event.event_id == id)
            .unwrap()
            .event
            .clone()
    };
    let review = of("e-1");
    assert_eq!(
        (review.event_name.as_str(), review.member_id),
        ("review.created", Some(42))
    );
    assert_eq!(review.occurred_at.format(&Rfc3339).unwrap(), "2026-02-18T10:00:00.123Z");
    assert_eq!(json!(review.properties), json!({ "reviewId": 7, "hasImage": true }));
    assert_eq!(
        (of("e-3").source, of("e-3").session_id.as_deref()),
        (Source::Client, Some("s-1"))
    );
    until("all are acknowledged", async || stream.pending() == 0).await;
    assert_eq!(stream.length(), 4);
    let letters = letters(&site.fresh).await;
    let errors: Vec<&str> = letters.iter().map(|letter| letter.error.as_str()).collect();
    assert_eq!(errors, ["the field memberId must be a whole number"]);
}

/// An event of the domain is mapped, published, read, stored and committed, and only then acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_of_the_domain_takes_the_stream_and_is_acknowledged_when_it_is_stored() {
    let stream = Stream::new();
    let site = stream.feed(fresh::postgres().await).await;
    let restaurant = site.restaurant("국밥집").await;
    site.review(restaurant).await;
    site.until_stored(1).await;
    until("it is acknowledged", async || stream.pending() == 0).await;
    assert_eq!(stream.length(), 1, "it came by the stream");
    let lock = site.fresh.writers(1).await;
    let tx = lock.begin().await.unwrap();
    let statement = "lock table user_activity_event in access exclusive mode";
    tx.execute_unprepared(statement).await.unwrap();
    site.review(restaurant).await;
    until("the entry is read", async || stream.pending() == 1).await;
    assert_eq!(stream.length(), 2);
    tx.rollback().await.unwrap();
    site.until_stored(2).await;
    until("the entry is acknowledged", async || stream.pending() == 0).await;
}

/// The consumer of another program, or of a process that was killed, has read entries and not acknowledged them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_dead_consumer_are_reclaimed() {
    let stream = Stream::new();
    let fresh = fresh::postgres().await;
    let (key, name) = (
        ["CREATE", &stream.name, GROUP, "0", "MKSTREAM"],
        ["STREAMS", &stream.name, ">"],
    );
    redis_cli(&stream.url, &[&["XGROUP"], &key[..]].concat());
    stream.add(&flat("e-1"));
    redis_cli(
        &stream.url,
        &[&["XREADGROUP", "GROUP", GROUP, "a-dead-consumer"], &name[..]].concat(),
    );
    assert_eq!(stream.pending(), 1);

    let site = stream.feed(fresh).await;
    site.until_stored(1).await;
    let lock = site.fresh.writers(1).await;
    let tx = lock.begin().await.unwrap();
    let statement = "lock table user_activity_event in access exclusive mode";
    tx.execute_unprepared(statement).await.unwrap();
    stream.add(&flat("e-2"));
    until("the entry is read", async || stream.pending() == 1).await;
    let fresh = site.kill();
    tx.rollback().await.unwrap();
    assert_eq!(stream.pending(), 1);

    let site = stream.feed(fresh).await;
    site.until_stored(2).await;
    until("all are acknowledged", async || stream.pending() == 0).await;
    assert!(letters(&site.fresh).await.is_empty());
}
