//! Two instances of the community over one store, and its members.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use postroom_testkit::Client;
use postroom_testkit::client::Answer;
use postroom_testkit::wait::{until, until_some};
use postroom_testkit::web_socket::{Message, WebSocket};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Place, World};

/// Two instances of the community. They share what instances share.
pub(crate) struct Town(pub(crate) World);

impl Town {
    pub(crate) async fn open(place: Place) -> Self {
        Self(World::with(place, 2, json!({})).await)
    }

    pub(crate) async fn close(self) {
        self.0.close().await;
    }

    /// A member, at one of the instances.
    pub(crate) fn member(&self, id: i64, at: usize) -> Member {
        Member {
            id,
            client: self.0.member_at(id, at).client,
            token: self.token(id, Duration::from_secs(600)),
        }
    }

    pub(crate) fn token(&self, id: i64, lifetime: Duration) -> String {
        self.0.keys.mint(&id.to_string(), lifetime).unwrap()
    }

    /// Waits until no row of a table contains this text.
    pub(crate) async fn until_no_row_contains(&self, table: &str, text: &str) {
        let column = match table {
            "community_member_event" => "data",
            _ => "body",
        };
        let sql = format!("select count(*) as n from {table} where {column} like '%{text}%'");
        until(&format!("{table} does not contain {text:?}"), || async {
            self.0.number(&sql).await == 0
        })
        .await;
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
