//! Every key of activity collection changes what its specification says: in the file, and by its environment variable.
//!
//! | key of `[modules.activity]` | variable | test |
//! |---|---|---|
//! | `enabled` | `ANALYTICS_ENABLED` | `enabled` |
//! | `mode` | `ANALYTICS_MODE` | `mode` |
//! | `client_ingest_enabled` | `ANALYTICS_CLIENT_INGEST_ENABLED` | `client_ingest_enabled` |
//! | `ingest_max_batch_size` | `ANALYTICS_INGEST_MAX_BATCH_SIZE` | `ingest_max_batch_size` |
//! | `ingest_rate_limit_per_minute` | `ANALYTICS_INGEST_RATE_LIMIT_PER_MINUTE` | `ingest_rate_limit_per_minute` |
//! | `strict_server_event_lossless` | `ANALYTICS_STRICT_SERVER_EVENT_LOSSLESS` | `strict_server_event_lossless` |
//! | `client_events` | `POSTROOM__MODULES__ACTIVITY__CLIENT_EVENTS` | `client_events` |
//! | `pii.…` | `ANALYTICS_…` | `privacy::pii_…` |
//! | `start`, `posthog.start` | `POSTROOM__MODULES__ACTIVITY__…` | `start::start`, `start::posthog_start` |
//! | `posthog.…` | `ANALYTICS_POSTHOG_…` | `posthog_…` |
//! | `message_queue.…` | `POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__…` | `message_queue_…` |

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

mod privacy;
mod start;

use std::time::Duration;

use postroom_testkit::fake_posthog::{FakePosthog, Outcome, PROJECT_API_KEY, Request};
use postroom_testkit::foreign::redis_cli;
use postroom_testkit::wait::until;
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use toml::Table;

use crate::broker::variable;
use crate::harness::{Daemon, Place};

const EVENTS: &str = "/api/v1/activity/events";
const ADMIN: &str = "/api/v1/activity/admin/events";

/// A key, its variable, and another value than the default.
#[derive(Clone, Copy)]
struct Setting {
    key: &'static str,
    variable: &'static str,
    value: &'static str,
}

fn setting(key: &'static str, variable: &'static str, value: &'static str) -> Setting {
    Setting { key, variable, value }
}

/// The places where a key can be set.
#[derive(Clone, Copy, Debug)]
enum By {
    Nobody,
    File,
    Variable,
}

const BOTH: [By; 2] = [By::File, By::Variable];

/// A daemon that collects activity, with a PostHog.
struct Site {
    place: Place,
    daemon: Daemon,
    posthog: FakePosthog,
}

/// The settings of every site, unless a test changes them.
fn base(posthog: &FakePosthog) -> Table {
    let toml = format!(
        r#"
        [modules.activity]
        mode = "INTERNAL_PLUS_POSTHOG"
        client_ingest_enabled = true
        client_events = {{ "page.viewed" = {{ v1 = ["path"] }} }}
        [modules.activity.posthog]
        enabled = true
        host = "{}"
        project_api_key = "{PROJECT_API_KEY}"
        start = "beginning"
        circuit_open_seconds = 1
        "#,
        posthog.url
    );
    toml.parse().unwrap()
}

/// Sets a key inside a table; the value is TOML, or a text.
fn put(table: &mut Table, path: &[&str], value: &str) {
    match path {
        [key] => {
            let value = format!("value = {value}")
                .parse::<Table>()
                .map_or(value.into(), |mut one| one.remove("value").unwrap());
            table.insert((*key).to_owned(), value);
        }
        [key, rest @ ..] => {
            let inner = table.entry(*key).or_insert_with(|| Table::new().into());
            put(inner.as_table_mut().unwrap(), rest, value);
        }
        [] => {}
    }
}

/// Sets a key of the module.
fn set(table: &mut Table, key: &str, value: &str) {
    let path: Vec<&str> = ["modules", "activity"].into_iter().chain(key.split('.')).collect();
    put(table, &path, value);
}

impl Site {
    async fn open(by: By, setting: Setting) -> Self {
        Self::with(by, setting, FakePosthog::open().await, |_| ()).await
    }

    /// The setting takes the place of the base; `change` comes before.
    async fn with(by: By, setting: Setting, posthog: FakePosthog, change: impl FnOnce(&mut Table)) -> Self {
        let (mut place, mut toml) = (Place::new(), base(&posthog));
        change(&mut toml);
        match by {
            By::Nobody => {}
            By::File => set(&mut toml, setting.key, setting.value),
            By::Variable => place.set(setting.variable, setting.value),
        }
        place.configure(&toml.to_string());
        let daemon = place.start(&["up"]).await;
        Self { place, daemon, posthog }
    }

    /// Sends so many events in one request.
    async fn send(&self, events: usize) -> (u16, Value) {
        let now = postroom::clock::now().format(&Rfc3339).unwrap();
        let event = |_| {
            json!({
                "eventId": uuid::Uuid::now_v7(), "eventName": "page.viewed", "eventVersion": "v1", "occurredAt": now,
                "anonymousId": "a", "sessionId": "s", "properties": { "path": "/" },
            })
        };
        let events: Vec<Value> = (0..events).map(event).collect();
        let body = json!({ "events": events }).to_string();
        let (code, answer) = self.daemon.request("POST", EVENTS, &body).await;
        (code, serde_json::from_str(&answer).unwrap_or_default())
    }

    async fn until_asked(&self, requests: usize) -> Vec<Request> {
        let what = format!("{requests} requests to PostHog");
        until(&what, async || self.posthog.asked() >= requests).await;
        self.posthog.requests()
    }

    /// Whether events go to PostHog.
    async fn has_posthog(&self) -> bool {
        self.place
            .wait_for_route("activity-store", |route| !route.is_null())
            .await;
        !self.place.route("activity-posthog").await.is_null()
    }

    async fn database(&self) -> DatabaseConnection {
        let file = self.place.path().join("postroom-data/postroom.db");
        Database::connect(format!("sqlite://{}", file.display())).await.unwrap()
    }
}

#[tokio::test]
async fn enabled() {
    let off = setting("enabled", "ANALYTICS_ENABLED", "false");
    for by in BOTH {
        let site = Site::open(by, off).await;
        assert_eq!(site.daemon.request("GET", ADMIN, "").await.0, 404, "{by:?}");
    }
    let site = Site::open(By::Nobody, off).await;
    assert_eq!(site.daemon.request("GET", ADMIN, "").await.0, 200);
}

#[tokio::test]
async fn mode() {
    let internal = setting("mode", "ANALYTICS_MODE", "INTERNAL_ONLY");
    for by in BOTH {
        assert!(!Site::open(by, internal).await.has_posthog().await, "{by:?}");
    }
    assert!(Site::open(By::Nobody, internal).await.has_posthog().await);
}

#[tokio::test]
async fn client_ingest_enabled() {
    let off = setting("client_ingest_enabled", "ANALYTICS_CLIENT_INGEST_ENABLED", "false");
    for by in BOTH {
        let (code, answer) = Site::open(by, off).await.send(1).await;
        assert_eq!(
            (code, &answer["code"]),
            (404, &json!("client_ingest_disabled")),
            "{by:?}"
        );
    }
    assert_eq!(Site::open(By::Nobody, off).await.send(1).await.0, 200);
}

#[tokio::test]
async fn ingest_max_batch_size() {
    let two = setting("ingest_max_batch_size", "ANALYTICS_INGEST_MAX_BATCH_SIZE", "2");
    for by in BOTH {
        let site = Site::open(by, two).await;
        assert_eq!(site.send(2).await.0, 200, "{by:?}");
        let (code, answer) = site.send(3).await;
        assert_eq!((code, &answer["code"]), (400, &json!("too_many_events")), "{by:?}");
    }
}

#[tokio::test]
async fn ingest_rate_limit_per_minute() {
    let two = setting(
        "ingest_rate_limit_per_minute",
        "ANALYTICS_INGEST_RATE_LIMIT_PER_MINUTE",
        "2",
    );
    for by in BOTH {
        let site = Site::open(by, two).await;
        let codes = [site.send(1).await.0, site.send(1).await.0, site.send(1).await.0];
        assert_eq!(codes, [200, 200, 429], "{by:?}");
    }
}

/// An event that cannot be mapped for hours is a dead letter, if it may be lost; otherwise it is tried on.
#[tokio::test]
async fn strict_server_event_lossless() {
    let lossy = setting(
        "strict_server_event_lossless",
        "ANALYTICS_STRICT_SERVER_EVENT_LOSSLESS",
        "false",
    );
    for by in [By::Nobody, By::File, By::Variable] {
        let site = Site::open(by, lossy).await;
        let db = site.database().await;
        let mapping_fails = "create trigger mapping_fails before insert on postroom_outbox \
             when new.event_type = 'activity.event.recorded.v1' begin select raise(abort, 'not now'); end";
        db.execute_unprepared(mapping_fails).await.unwrap();
        let restaurant = r#"{"name":"국밥집"}"#;
        let (code, made) = site.daemon.request("POST", "/tasteam/restaurants", restaurant).await;
        assert_eq!(code, 201, "{made}");
        let review = r#"{"memberId":42,"restaurantId":1,"content":"맛있어요","hasImage":false}"#;
        let (code, made) = site.daemon.request("POST", "/tasteam/reviews", review).await;
        assert_eq!(code, 201, "{made}");
        let is_parked = |route: &Value| route["retrying"] == 1;
        site.place.wait_for_route("activity-map", is_parked).await;
        let hours_later = "update postroom_outbox_parked set created_at = '2026-01-01T00:00:00.000Z'";
        db.execute_unprepared(hours_later).await.unwrap();
        match by {
            By::Nobody => {
                let attempts = "select attempts from postroom_outbox_parked where attempts > 2";
                until("it is tried on", async || {
                    db.query_one_raw(sqlite(attempts)).await.unwrap().is_some()
                })
                .await;
                assert_eq!(site.place.route("activity-map").await["dead"], 0);
            }
            By::File | By::Variable => {
                site.place
                    .wait_for_route("activity-map", |route| route["dead"] == 1)
                    .await;
            }
        }
    }
}

fn sqlite(statement: &str) -> sea_orm::Statement {
    sea_orm::Statement::from_string(sea_orm::DbBackend::Sqlite, statement)
}

/// Not of the specification, which leaves the list of client events open.
#[tokio::test]
async fn client_events() {
    let other = setting(
        "client_events",
        "POSTROOM__MODULES__ACTIVITY__CLIENT_EVENTS",
        r#"{ "app.opened" = { v1 = ["path"] } }"#,
    );
    let result = async |by: By| {
        let (_, answer) = Site::open(by, other).await.send(1).await;
        let result = answer["results"].as_object().unwrap().values().next().unwrap().clone();
        (result["result"].clone(), result["details"].clone())
    };
    for by in BOTH {
        assert_eq!(result(by).await, (json!("drop"), json!("unknown_event_name")), "{by:?}");
    }
    assert_eq!(result(By::Nobody).await, (json!("ok"), Value::Null));
    let place = Place::new();
    place.configure("[modules.activity.client_events]\n\"page.viewed\" = {}\nbutton.clicked = { v1 = [] }\n");
    let said = place.fails(&["config", "check"]).await;
    assert!(
        said.contains("modules.activity.client_events.button.clicked: "),
        "{said}"
    );
    assert!(said.contains("a name with dots has quotes"), "{said}");
    place.configure("[modules.activity.client_events]\n\"page.viewed\" = {}\n");
    let said = place.fails(&["config", "check"]).await;
    assert!(said.contains("client_events.\"page.viewed\": has no version"), "{said}");
}

#[tokio::test]
async fn posthog_enabled() {
    let off = setting("posthog.enabled", "ANALYTICS_POSTHOG_ENABLED", "false");
    for by in BOTH {
        assert!(!Site::open(by, off).await.has_posthog().await, "{by:?}");
    }
}

#[tokio::test]
async fn posthog_host() {
    for by in BOTH {
        let other = FakePosthog::open().await;
        let url: &'static str = Box::leak(other.url.clone().into_boxed_str());
        let host = setting("posthog.host", "ANALYTICS_POSTHOG_HOST", url);
        let site = Site::open(by, host).await;
        site.send(1).await;
        until("the event is at the other PostHog", async || other.asked() > 0).await;
        assert_eq!(site.posthog.asked(), 0, "{by:?}");
    }
}

#[tokio::test]
async fn posthog_project_api_key() {
    let key = setting(
        "posthog.project_api_key",
        "ANALYTICS_POSTHOG_PROJECT_API_KEY",
        "phc_another_project",
    );
    for by in BOTH {
        let site = Site::open(by, key).await;
        site.send(1).await;
        let request = site.until_asked(1).await.remove(0);
        let shown = format!("{:?} {}", request.headers, request.json());
        assert!(shown.contains("phc_another_project"), "{by:?}: {shown}");
    }
}

#[tokio::test]
async fn posthog_batch_size() {
    let two = setting("posthog.batch_size", "ANALYTICS_POSTHOG_BATCH_SIZE", "2");
    for by in [By::Nobody, By::File, By::Variable] {
        let site = Site::open(by, two).await;
        assert_eq!(site.send(5).await.0, 200);
        until("all events are there", async || site.posthog.uuids().len() == 5).await;
        let requests = site.posthog.requests();
        let largest = requests.iter().map(|request| request.events().len()).max().unwrap();
        match by {
            By::Nobody => assert_eq!(largest, 5),
            By::File | By::Variable => assert_eq!(largest, 2, "{by:?}"),
        }
    }
}

/// The next request comes after the time-out, and then a second for the open circuit. The default would be 3 s.
#[tokio::test]
async fn posthog_timeout_ms() {
    let five_seconds = setting("posthog.timeout_ms", "ANALYTICS_POSTHOG_TIMEOUT_MS", "5000");
    let waits = async |by: By| {
        let site = Site::open(by, five_seconds).await;
        site.posthog.always(Some(Outcome::Silence));
        site.send(1).await;
        let requests = site.until_asked(2).await;
        let gap = requests[1].at - requests[0].at;
        assert!(gap >= Duration::from_secs(5), "{by:?}: {gap:?}");
    };
    tokio::join!(waits(By::File), waits(By::Variable));
}

/// One event is refused while others are taken, so it is to blame.
#[tokio::test]
async fn posthog_max_retries() {
    let one = setting("posthog.max_retries", "ANALYTICS_POSTHOG_MAX_RETRIES", "1");
    let gives_up = async |by: By| {
        let site = Site::open(by, one).await;
        site.posthog.rule(|rules| {
            rules.not_persisted.insert("page.viewed".to_owned());
        });
        site.send(1).await;
        site.until_asked(1).await;
        let review = r#"{"memberId":42,"restaurantId":1,"content":"맛있어요","hasImage":false}"#;
        site.daemon
            .request("POST", "/tasteam/restaurants", r#"{"name":"국밥집"}"#)
            .await;
        until("it is given up", async || {
            site.daemon.request("POST", "/tasteam/reviews", review).await;
            site.place.route("activity-posthog").await["dead"] == 1
        })
        .await;
        let letters = site.place.json(&["dead", "list"]).await;
        assert_eq!(letters[0]["attempts"], 2, "{by:?}: {letters}");
    };
    tokio::join!(gives_up(By::File), gives_up(By::Variable));
}

#[tokio::test]
async fn posthog_circuit_open_seconds() {
    let hour = setting(
        "posthog.circuit_open_seconds",
        "ANALYTICS_POSTHOG_CIRCUIT_OPEN_SECONDS",
        "3600",
    );
    for by in BOTH {
        let site = Site::open(by, hour).await;
        site.posthog.always(Some(Outcome::status(503)));
        site.send(1).await;
        let is_open = |route: &Value| route["probe_s"].as_f64().is_some_and(|wait| wait > 3_000.0);
        site.place.wait_for_route("activity-posthog", is_open).await;
    }
}

/// A Redis stream with a prefix of its own; dropping it removes its keys.
struct Stream {
    url: String,
    prefix: String,
}

impl Stream {
    fn new() -> Self {
        Self {
            url: variable("POSTROOM_TEST_REDIS_URL"),
            prefix: format!("test-{}.", uuid::Uuid::now_v7().simple()),
        }
    }

    fn name(&self) -> String {
        format!("{}domain.user.activity", self.prefix)
    }

    /// A site whose module is fed by Redis.
    async fn feed(&self, by: By, setting: Setting) -> Site {
        let change = |toml: &mut Table| {
            put(toml, &["brokers", "redis", "url"], &self.url);
            set(toml, "message_queue.enabled", "true");
            set(toml, "message_queue.topic_prefix", &self.prefix);
        };
        Site::with(by, setting, FakePosthog::open().await, change).await
    }

    fn groups(&self, name: &str) -> String {
        let exists = redis_cli(&self.url, &["EXISTS", name]);
        match exists.trim() {
            "0" => String::new(),
            _ => redis_cli(&self.url, &["XINFO", "GROUPS", name]),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for key in redis_cli(&self.url, &["--scan", "--pattern", &format!("*{}*", self.prefix)]).lines() {
            redis_cli(&self.url, &["DEL", key]);
        }
    }
}

#[tokio::test]
async fn message_queue_enabled() {
    let off = setting(
        "message_queue.enabled",
        "POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__ENABLED",
        "false",
    );
    for by in BOTH {
        let stream = Stream::new();
        let site = stream.feed(by, off).await;
        site.send(1).await;
        site.place
            .wait_for_route("activity-store", |route| !route.is_null())
            .await;
        assert_eq!(stream.groups(&stream.name()), "", "{by:?}");
    }
    let stream = Stream::new();
    let _site = stream.feed(By::Nobody, off).await;
    until("the group is there", async || {
        stream.groups(&stream.name()).contains("activity-store")
    })
    .await;
}

/// Both names of Redis are taken; another broker than `broker` says is refused, and so is one that cannot be a queue.
#[tokio::test]
async fn message_queue_provider() {
    let check = async |by: By, value: &'static str, broker: &str, words: &str| {
        let mut place = Place::new();
        let mut toml: Table = "[brokers.redis]\nurl = \"redis://a\"\n[brokers.kafka]\nurl = \"kafka://a:1\"\n"
            .parse()
            .unwrap();
        set(&mut toml, "broker", broker);
        match by {
            By::Nobody => {}
            By::File => set(&mut toml, "message_queue.provider", value),
            By::Variable => place.set("POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__PROVIDER", value),
        }
        place.configure(&toml.to_string());
        let said = place.run(&["config", "check"]).await;
        let said = format!("{}{}", said.out, said.err);
        assert!(said.contains(words), "{by:?} {value}: {said}");
    };
    check(By::Nobody, "", "kafka", "no mistakes").await;
    for by in BOTH {
        check(by, "redis", "redis", "no mistakes").await;
        check(by, "redis-stream", "redis", "no mistakes").await;
        check(by, "redis", "kafka", "modules.activity.broker is \"kafka\"").await;
        check(by, "carrier-pigeon", "redis", "expected `redis`").await;
    }
}

#[tokio::test]
async fn message_queue_topic_prefix() {
    for by in BOTH {
        let stream = Stream::new();
        let other: &'static str = Box::leak(format!("{}other:", stream.prefix).into_boxed_str());
        let prefix = setting(
            "message_queue.topic_prefix",
            "POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__TOPIC_PREFIX",
            other,
        );
        let _site = stream.feed(by, prefix).await;
        let name = format!("{other}domain.user.activity");
        until("the group is there", async || {
            stream.groups(&name).contains("activity-store")
        })
        .await;
        assert_eq!(stream.groups(&stream.name()), "", "{by:?}");
    }
}

#[tokio::test]
async fn message_queue_default_consumer_group() {
    let group = setting(
        "message_queue.default_consumer_group",
        "POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__DEFAULT_CONSUMER_GROUP",
        "tasteam-api",
    );
    for by in BOTH {
        let stream = Stream::new();
        let site = stream.feed(by, group).await;
        until("the group is there", async || {
            stream.groups(&stream.name()).contains("tasteam-api")
        })
        .await;
        let groups = stream.groups(&stream.name());
        assert!(!groups.contains("activity-store"), "{by:?}: {groups}");
        site.place.wait_for_route("tasteam-api", |route| !route.is_null()).await;
    }
}

/// Redis shows the reads of the group and how long they wait.
#[tokio::test]
async fn message_queue_poll_timeout_millis() {
    let poll = setting(
        "message_queue.poll_timeout_millis",
        "POSTROOM__MODULES__ACTIVITY__MESSAGE_QUEUE__POLL_TIMEOUT_MILLIS",
        "700",
    );
    for by in BOTH {
        let stream = Stream::new();
        let address = stream
            .url
            .trim_start_matches("redis://")
            .trim_end_matches('/')
            .to_owned();
        let mut monitor = BufReader::new(TcpStream::connect(address).await.unwrap());
        monitor.write_all(b"MONITOR\r\n").await.unwrap();
        let _site = stream.feed(by, poll).await;
        let is_read = |line: &str| line.contains("\"XREAD\"") && line.contains(&stream.name());
        let mut line = String::new();
        while !is_read(&line) {
            line.clear();
            assert!(monitor.read_line(&mut line).await.unwrap() > 0, "Redis ends");
        }
        assert!(line.contains("\"BLOCK\" \"700\""), "{by:?}: {line}");
    }
}

/// The table above has every key that has a variable.
#[test]
fn every_key_with_a_variable_has_a_test() {
    let tests = [
        include_str!("activity_settings.rs"),
        include_str!("activity_settings/privacy.rs"),
    ]
    .concat();
    for (variable, key) in tasteam_activity::activity().variables {
        let is_here = tests.contains(&format!("\"{variable}\"")) && tests.contains(&format!("\"{key}\""));
        assert!(is_here, "{variable} ({key}) has no test");
    }
}
