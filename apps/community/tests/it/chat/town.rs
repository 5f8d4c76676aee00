//! Two instances of the community over one store, and its members.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use postroom_access::MemberKeys;
use postroom_redis::Redis;
use postroom_shared::SharedState;
use postroom_testkit::client::Answer;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until_some;
use postroom_testkit::web_socket::{Message, WebSocket};
use postroom_testkit::{Client, Fresh};
use serde_json::{Value, json};
use uuid::Uuid;

/// Two instances of the community. They share what instances share.
pub(crate) struct Town {
    pub(crate) fresh: Fresh,
    pub(crate) keys: MemberKeys,
    scenery: Scenery,
    instances: Vec<Option<Running>>,
}

impl Town {
    /// Instances that share the memory of this process.
    pub(crate) async fn open(fresh: Fresh) -> Self {
        Self::sharing(fresh, SharedState::local()).await
    }

    /// Instances that share a Redis.
    pub(crate) async fn with_redis(fresh: Fresh) -> Self {
        let url = std::env::var("POSTROOM_TEST_REDIS_URL").unwrap_or_else(|_| {
            panic!("POSTROOM_TEST_REDIS_URL is not set: `eval \"$(cargo xtask services up)\"` starts the services")
        });
        let redis = Redis::open(&url, postroom_redis::Options::default()).unwrap();
        let prefix = format!("town-{}:", Uuid::now_v7().simple());
        Self::sharing(fresh, redis.prefixed_shared_state(&prefix).unwrap()).await
    }

    async fn sharing(fresh: Fresh, shared: SharedState) -> Self {
        let keys = MemberKeys::from_secret(&[7; 32]).unwrap();
        let scenery = Scenery {
            shared: Some(shared),
            members: Some(keys.clone()),
            ..Scenery::default()
        };
        let mut town = Self {
            fresh,
            keys,
            scenery,
            instances: vec![None, None],
        };
        for at in 0..town.instances.len() {
            town.start(at).await;
        }
        town
    }

    pub(crate) async fn start(&mut self, at: usize) {
        let stage = Running::open(&self.fresh, vec![community::module()], self.scenery.clone()).await;
        self.instances[at] = Some(stage);
    }

    /// Ends an instance as if its process was killed.
    pub(crate) fn kill(&mut self, at: usize) {
        drop(self.instances[at].take());
    }

    pub(crate) async fn close(mut self) -> Fresh {
        for instance in self.instances.drain(..).flatten() {
            instance.close().await;
        }
        self.fresh
    }

    /// A member, at one of the instances.
    pub(crate) fn member(&self, id: i64, at: usize) -> Member {
        Member {
            id,
            client: self.instances[at].as_ref().unwrap().client.clone(),
            token: self.token(id, Duration::from_secs(600)),
        }
    }

    pub(crate) fn token(&self, id: i64, lifetime: Duration) -> String {
        self.keys.mint(&id.to_string(), lifetime).unwrap()
    }
}

/// A member with a client.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) id: i64,
    pub(crate) client: Client,
    pub(crate) token: String,
}

impl Member {
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let header = self.header();
        self.client
            .must(method, path, &[("authorization", &header)], &body)
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null).await
    }

    /// Makes a room with these members.
    pub(crate) async fn room(&self, members: &[i64]) -> i64 {
        let wanted = json!({ "name": "Lunch", "memberIds": members });
        let made = self.ask("POST", "/api/chat/rooms", &wanted).await;
        made.created()["roomId"].as_i64().unwrap()
    }

    pub(crate) async fn say_as(&self, room: i64, client_msg_id: &str, body: &str) -> Answer {
        let path = format!("/api/chat/rooms/{room}/messages");
        self.ask("POST", &path, &json!({ "clientMsgId": client_msg_id, "body": body }))
            .await
    }

    /// Says something; answers its number.
    pub(crate) async fn say(&self, room: i64, body: &str) -> i64 {
        let said = self.say_as(room, &Uuid::now_v7().to_string(), body).await.created();
        said["seq"].as_i64().unwrap()
    }

    pub(crate) async fn edit(&self, room: i64, message: i64, body: &str) -> Answer {
        let path = format!("/api/chat/rooms/{room}/messages/{message}");
        self.ask("PATCH", &path, &json!({ "body": body })).await
    }

    pub(crate) async fn delete(&self, room: i64, message: i64) -> Answer {
        let path = format!("/api/chat/rooms/{room}/messages/{message}");
        self.ask("DELETE", &path, &Value::Null).await
    }

    pub(crate) async fn add(&self, room: i64, member: i64) -> Answer {
        self.ask("PUT", &format!("/api/chat/rooms/{room}/members/{member}"), &Value::Null)
            .await
    }

    pub(crate) async fn remove(&self, room: i64, member: i64) -> Answer {
        self.ask(
            "DELETE",
            &format!("/api/chat/rooms/{room}/members/{member}"),
            &Value::Null,
        )
        .await
    }

    /// The whole history of a room, oldest first, read in small pages.
    pub(crate) async fn history(&self, room: i64) -> Vec<Value> {
        let (mut messages, mut before) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/chat/rooms/{room}/messages?limit=7{before}");
            let page = self.get(&path).await.ok();
            messages.extend(page["messages"].as_array().unwrap().iter().cloned());
            match page["next"].as_i64() {
                Some(next) => before = format!("&before={next}"),
                None => break,
            }
        }
        messages.reverse();
        messages
    }

    /// Waits until history has so many messages.
    pub(crate) async fn until_stored(&self, room: i64, count: usize) -> Vec<Value> {
        until_some(&format!("history has {count} messages"), || async {
            let history = self.history(room).await;
            assert!(history.len() <= count, "{history:#?}");
            (history.len() == count).then_some(history)
        })
        .await
    }

    pub(crate) async fn socket(&self) -> Socket {
        let header = self.header();
        let socket = WebSocket::open(&self.client.0, "/api/chat/ws", &[("authorization", &header)]).await;
        assert_eq!(socket.status, 101);
        Socket(socket)
    }

    /// A connection that follows a room.
    pub(crate) async fn follow(&self, room: i64, after: Option<i64>) -> Socket {
        let mut socket = self.socket().await;
        socket.join(room, after).await;
        socket
    }
}

/// An open connection.
pub(crate) struct Socket(pub(crate) WebSocket);

impl Socket {
    pub(crate) async fn send(&mut self, message: &Value) {
        self.0.send(message).await;
    }

    /// Follows a room; answers from where.
    pub(crate) async fn join(&mut self, room: i64, after: Option<i64>) -> i64 {
        self.send(&json!({ "type": "join", "roomId": room, "after": after }))
            .await;
        let joined = self.named("joined").await;
        assert_eq!(joined["roomId"], room);
        joined["seq"].as_i64().unwrap()
    }

    /// The next message that is no ping.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await {
                Some(Message::Text(json)) if json["event"] == "ping" => {}
                Some(Message::Text(json)) => return json,
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next message, which must have this name.
    pub(crate) async fn named(&mut self, event: &str) -> Value {
        let next = self.next().await;
        assert_eq!(next["event"], event, "{next}");
        next
    }

    /// The entries of a room up to this number. They must follow each other after `after`.
    pub(crate) async fn entries(&mut self, after: i64, until: i64) -> Vec<Value> {
        let mut entries: Vec<Value> = Vec::new();
        while after + (entries.len() as i64) < until {
            let next = self.next().await;
            if next["data"]["roomId"].is_null() {
                continue; // `sent` and `stored`
            }
            assert_eq!(next["seq"], after + 1 + entries.len() as i64, "{next}");
            entries.push(next);
        }
        entries
    }
}

/// The texts of frames.
pub(crate) fn bodies(frames: &[Value]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame["data"]["body"].as_str().unwrap_or("-"))
        .collect()
}

/// One test for each database; on MariaDB with Redis, as in production.
macro_rules! in_every_town {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let fresh = postroom_testkit::fresh::sqlite().await;
                super::$test(crate::chat::town::Town::open(fresh).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let fresh = postroom_testkit::fresh::postgres().await;
                super::$test(crate::chat::town::Town::open(fresh).await).await;
            })*
        }
        mod mariadb_with_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let fresh = postroom_testkit::fresh::mysql().await;
                super::$test(crate::chat::town::Town::with_redis(fresh).await).await;
            })*
        }
    };
}
pub(crate) use in_every_town;

/// Waits until no row of a table of chat contains this text.
pub(crate) async fn until_no_row_contains(fresh: &Fresh, table: &str, text: &str) {
    use sea_orm::ConnectionTrait;
    let column = if table == "community_member_event" {
        "data"
    } else {
        "body"
    };
    let sql = format!("select count(*) as found from {table} where {column} like '%{text}%'");
    postroom_testkit::wait::until(&format!("{table} does not contain {text:?}"), || async {
        let statement = sea_orm::Statement::from_string(fresh.db().get_database_backend(), sql.clone());
        let row = fresh.db().query_one_raw(statement).await.unwrap().unwrap();
        row.try_get::<i64>("", "found").unwrap() == 0
    })
    .await;
}

impl Town {
    /// Makes a job due now.
    pub(crate) async fn run_soon(&self, job: &str) {
        use sea_orm::ConnectionTrait;
        let db = self.fresh.db();
        let (table, past) = match db.get_database_backend() {
            sea_orm::DbBackend::Postgres => ("postroom.outbox_job", "now() - interval '1 hour'"),
            sea_orm::DbBackend::MySql => ("postroom_outbox_job", "utc_timestamp(6) - interval 1 hour"),
            _ => ("postroom_outbox_job", "'2000-01-01T00:00:00.000Z'"),
        };
        let sql = format!("update {table} set next_at = {past} where name = '{job}'");
        db.execute_unprepared(&sql).await.unwrap();
    }
}
