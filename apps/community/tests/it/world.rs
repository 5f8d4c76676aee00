//! A running community: a fresh store, the state that instances share, an optional broker, and instances that can be killed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Namespaced};
use postroom_access::MemberKeys;
use postroom_host::Module;
use postroom_rabbitmq::RabbitMq;
use postroom_redis::Redis;
use postroom_shared::SharedState;
use postroom_testkit::client::Answer;
use postroom_testkit::event_stream::EventStream;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The groups that RabbitMQ feeds.
const GROUPS: [&str; 4] = ["notification", "aggregate", "chat_persist", "chat_fanout"];

/// The surroundings of a community.
pub(crate) struct Place {
    pub(crate) fresh: Fresh,
    shared: Shared,
    rabbit: Option<Rabbit>,
}

/// What the instances of a test share.
enum Shared {
    /// The memory of this process.
    Memory(SharedState),
    /// A Redis, with keys of their own.
    Redis { url: String, prefix: String },
}

impl Shared {
    /// With a connection of its own, as each process has.
    fn open(&self) -> SharedState {
        match self {
            Self::Memory(state) => state.clone(),
            Self::Redis { url, prefix } => {
                let redis = Redis::open(url, postroom_redis::Options::default());
                redis.unwrap().prefixed_shared_state(prefix).unwrap()
            }
        }
    }
}

/// The queues of one test on a RabbitMQ.
struct Rabbit {
    url: String,
    prefix: String,
}

impl Rabbit {
    /// With connections of its own and the names of the specification.
    fn open(&self) -> RabbitMq {
        let rabbit = RabbitMq::new(&self.url).unwrap();
        rabbit.by_type("{group}_queue", "{group}_dlq").unwrap()
    }
}

impl From<Fresh> for Place {
    /// Without a broker; instances share the memory of this process.
    fn from(fresh: Fresh) -> Self {
        Self {
            fresh,
            shared: Shared::Memory(SharedState::local()),
            rabbit: None,
        }
    }
}

impl Place {
    /// With RabbitMQ and Redis, as the specification has it.
    pub(crate) fn as_specified(fresh: Fresh) -> Self {
        let place = Self::from(fresh).on_redis(variable("POSTROOM_TEST_REDIS_URL"));
        place.through(variable("POSTROOM_TEST_RABBITMQ_URL"))
    }

    /// The same, sharing this Redis.
    pub(crate) fn on_redis(self, url: String) -> Self {
        let prefix = format!("test-{}:", Uuid::now_v7().simple());
        Self {
            shared: Shared::Redis { url, prefix },
            ..self
        }
    }

    /// The same, fed through this RabbitMQ.
    pub(crate) fn through(self, url: String) -> Self {
        let prefix = format!("test-{}-", Uuid::now_v7().simple());
        Self {
            rabbit: Some(Rabbit { url, prefix }),
            ..self
        }
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: `eval \"$(cargo xtask services up)\"` starts the services and tells this shell")
    })
}

/// How long things are broken: so many seconds, or as many as `POSTROOM_TEST_FAULT_SECONDS` says.
pub(crate) fn fault_time(seconds: u64) -> Duration {
    let asked = std::env::var("POSTROOM_TEST_FAULT_SECONDS");
    Duration::from_secs(asked.map_or(seconds, |text| text.parse().unwrap()))
}

/// A running community.
pub(crate) struct World {
    pub(crate) fresh: Fresh,
    pub(crate) keys: MemberKeys,
    shared: Shared,
    rabbit: Option<Rabbit>,
    settings: Value,
    instances: Vec<Option<Running>>,
}

impl World {
    /// With one instance.
    pub(crate) async fn on(place: impl Into<Place>) -> Self {
        Self::with(place, 1, json!({})).await
    }

    /// With so many instances and these settings.
    pub(crate) async fn with(place: impl Into<Place>, instances: usize, settings: Value) -> Self {
        let Place { fresh, shared, rabbit } = place.into();
        let mut world = Self {
            fresh,
            keys: MemberKeys::from_secret(&[7; 32]).unwrap(),
            shared,
            rabbit,
            settings,
            instances: Vec::new(),
        };
        for at in 0..instances {
            world.instances.push(None);
            world.start(at).await;
        }
        world
    }

    pub(crate) async fn start(&mut self, at: usize) {
        let scenery = Scenery {
            broker: self.broker(),
            shared: Some(self.shared()),
            members: Some(self.keys.clone()),
            every: Duration::from_millis(200),
            ..Scenery::default()
        };
        self.instances[at] = Some(Running::open(&self.fresh, vec![self.module()], scenery).await);
    }

    fn module(&self) -> Module {
        let settings: Map<String, Value> = self.settings.as_object().unwrap().clone();
        community::module().configure(settings).unwrap()
    }

    fn broker(&self) -> Option<Arc<dyn Broker>> {
        let rabbit = self.rabbit.as_ref()?;
        let broker = Namespaced::new(Arc::new(rabbit.open()), rabbit.prefix.clone()).unwrap();
        Some(Arc::new(broker))
    }

    /// What the instances share, as one more of them would have it.
    pub(crate) fn shared(&self) -> SharedState {
        self.shared.open()
    }

    /// Where an instance listens.
    pub(crate) fn url(&self, at: usize) -> &str {
        &self.instances[at].as_ref().unwrap().client.0
    }

    /// Ends an instance as if its process was killed.
    pub(crate) fn kill(&mut self, at: usize) {
        drop(self.instances[at].take());
    }

    /// Shuts down gracefully, and removes what the test has left on the broker.
    pub(crate) async fn close(mut self) -> Fresh {
        for instance in self.instances.drain(..).flatten() {
            instance.close().await;
        }
        if let Some(rabbit) = &self.rabbit {
            let (broker, prefix) = (rabbit.open(), &rabbit.prefix);
            let topics = [format!("{prefix}{}", community::TOPIC)];
            for group in GROUPS {
                broker.forget(&format!("{prefix}{group}"), &topics).await.unwrap();
            }
        }
        self.fresh
    }

    /// A member, at the first instance.
    pub(crate) fn member(&self, id: i64) -> Member {
        self.member_at(id, 0)
    }

    pub(crate) fn member_at(&self, id: i64, at: usize) -> Member {
        Member {
            id,
            client: self.instances[at].as_ref().unwrap().client.clone(),
            token: self.keys.mint(&id.to_string(), Duration::from_secs(600)).unwrap(),
        }
    }

    /// A table of the platform, as this database names it.
    pub(crate) fn platform_table(&self, name: &str) -> String {
        match self.fresh.db().get_database_backend() {
            DbBackend::Postgres => format!("postroom.{name}"),
            _ => format!("postroom_{name}"),
        }
    }

    /// Makes a job due now.
    pub(crate) async fn run_soon(&self, job: &str) {
        let past = match self.fresh.db().get_database_backend() {
            DbBackend::Postgres => "now() - interval '1 hour'",
            DbBackend::MySql => "utc_timestamp(6) - interval 1 hour",
            _ => "'2000-01-01T00:00:00.000Z'",
        };
        let jobs = self.platform_table("outbox_job");
        run(
            &self.fresh,
            &format!("update {jobs} set next_at = {past} where name = '{job}'"),
        )
        .await;
    }

    /// Waits until retention has removed these rows.
    pub(crate) async fn until_removed(&self, rows: &str) {
        let sql = format!("select count(*) as n from {rows}");
        until(&format!("no {rows}"), || async {
            self.run_soon("community-retention").await;
            self.number(&sql).await == 0
        })
        .await;
    }

    /// The number `n` that a statement answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        number(&self.fresh, sql).await
    }
}

/// The number `n` that a statement answers.
pub(crate) async fn number(fresh: &Fresh, sql: &str) -> i64 {
    let statement = Statement::from_string(fresh.db().get_database_backend(), sql);
    let row = fresh.db().query_one_raw(statement).await.unwrap().unwrap();
    row.try_get("", "n").unwrap()
}

/// Runs a statement.
pub(crate) async fn run(fresh: &Fresh, sql: &str) -> u64 {
    let done = fresh.db().execute_unprepared(sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_affected()
}

/// A member with a client.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: i64,
    pub(crate) client: Client,
    pub(crate) token: String,
}

impl Member {
    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let bearer = self.bearer();
        self.client
            .must(method, path, &[("authorization", &bearer)], &body)
            .await
    }

    /// A POST request that may fail: an error means that nobody knows what became of it.
    pub(crate) async fn try_post(&self, path: &str, body: &Value) -> io::Result<Answer> {
        let bearer = self.bearer();
        let headers = [("authorization", bearer.as_str())];
        self.client.send("POST", path, &headers, &body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Value::Null).await
    }

    /// The body of a successful GET.
    pub(crate) async fn look(&self, path: &str) -> Value {
        self.get(path).await.ok()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask("PUT", path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, Value::Null).await
    }

    pub(crate) async fn join(&self, nickname: &str) {
        self.put("/community/members/me", json!({ "nickname": nickname }))
            .await
            .ok();
    }

    /// Writes a post; answers its id.
    pub(crate) async fn publish(&self, title: &str) -> i64 {
        let written = self
            .post("/community/posts", json!({ "title": title, "body": "…" }))
            .await;
        written.created()["postId"].as_i64().unwrap()
    }

    /// Comments on a post; answers the id.
    pub(crate) async fn comment(&self, post: i64, body: &str) -> i64 {
        let path = format!("/community/posts/{post}/comments");
        let written = self.post(&path, json!({ "body": body })).await.created();
        written["commentId"].as_i64().unwrap()
    }

    pub(crate) async fn like(&self, post: i64) {
        self.put(&format!("/community/posts/{post}/like"), Value::Null)
            .await
            .ok();
    }

    pub(crate) async fn comment_count(&self, post: i64) -> i64 {
        self.look(&format!("/community/posts/{post}")).await["commentCount"]
            .as_i64()
            .unwrap()
    }

    pub(crate) async fn mute(&self, muted: bool) {
        self.put("/api/notifications/settings", json!({ "muted": muted }))
            .await
            .ok();
    }

    pub(crate) async fn unread(&self) -> i64 {
        self.look("/api/notifications/unread").await["unread"].as_i64().unwrap()
    }

    /// The newest notifications, newest first.
    pub(crate) async fn inbox(&self) -> Vec<Value> {
        let inbox = self.look("/api/notifications?limit=100").await;
        inbox["notifications"].as_array().unwrap().clone()
    }

    /// Waits until the inbox has so many notifications.
    pub(crate) async fn until_told(&self, count: usize) -> Vec<Value> {
        let what = format!("member {} has {count} notifications", self.id);
        until(&what, || async { self.inbox().await.len() >= count }).await;
        let inbox = self.inbox().await;
        assert_eq!(inbox.len(), count, "{inbox:#?}");
        inbox
    }

    /// Opens the stream, after this cursor.
    pub(crate) async fn stream(&self, cursor: Option<&str>) -> EventStream {
        let bearer = self.bearer();
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(cursor.map(|cursor| ("last-event-id", cursor)));
        let stream = EventStream::open(&self.client.0, "/api/notifications/stream", &headers).await;
        assert_eq!(stream.status, 200);
        stream
    }

    /// Opens the stream without a cursor, and reads what it begins with: the event `reset`, and the unread notifications behind it.
    pub(crate) async fn begin(&self, unread: usize) -> (EventStream, Value, Vec<Value>) {
        let mut stream = self.stream(None).await;
        let reset = stream.next_named("reset").await.json();
        let mut notifications = Vec::new();
        for _ in 0..unread {
            notifications.push(stream.next_named("notification").await.json());
        }
        (stream, reset, notifications)
    }
}

/// The texts of a field.
pub(crate) fn texts<'v>(values: &'v [Value], field: &str) -> Vec<&'v str> {
    values.iter().map(|value| value[field].as_str().unwrap()).collect()
}

/// The numbers of a field.
pub(crate) fn numbers(values: &[Value], field: &str) -> Vec<i64> {
    values.iter().map(|value| value[field].as_i64().unwrap()).collect()
}

/// One test for each database; on MariaDB through RabbitMQ with Redis, as the specification has it.
macro_rules! on_every_way {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::sqlite().await.into()).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::postgres().await.into()).await; })*
        }
        mod mariadb_rabbitmq_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let fresh = postroom_testkit::fresh::mysql().await;
                super::$test(crate::world::Place::as_specified(fresh)).await;
            })*
        }
    };
}
pub(crate) use on_every_way;
