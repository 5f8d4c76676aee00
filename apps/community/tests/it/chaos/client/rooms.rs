//! A client of chat: several rooms over one WebSocket, each with a number of its own.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use std::collections::BTreeMap;
use std::io;

use postroom_testkit::web_socket::{Message, WebSocket};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{CONNECT_MAX, Connect, End, Log, SILENCE_MAX, Stream, keep_connected};

/// The client of one member.
pub(in crate::chaos) struct Rooms {
    pub(in crate::chaos) url: String,
    pub(in crate::chaos) token: String,
    pub(in crate::chaos) log: Log,
    /// The number in each room after which the next connection goes on.
    rooms: BTreeMap<i64, Option<i64>>,
}

impl Rooms {
    pub(in crate::chaos) fn new(url: String, token: String, log: Log, rooms: impl IntoIterator<Item = i64>) -> Self {
        Self {
            url,
            token,
            log,
            rooms: rooms.into_iter().map(|room| (room, None)).collect(),
        }
    }

    pub(in crate::chaos) async fn run(self) {
        keep_connected(self).await;
    }

    async fn open(&self) -> io::Result<WebSocket> {
        let opening = WebSocket::try_open(&self.url, "/api/chat/ws", &[]);
        let mut socket = timeout(CONNECT_MAX, opening).await.map_err(io::Error::other)??;
        if socket.status == 101 {
            socket.send(&json!({ "type": "auth", "token": self.token })).await;
            for (room, after) in &self.rooms {
                socket
                    .send(&json!({ "type": "join", "roomId": room, "after": after }))
                    .await;
            }
        }
        Ok(socket)
    }

    /// Takes a message; answers when the client comes back, if the message is the last one.
    fn take(&mut self, message: &Value, joined: &mut usize) -> Option<f64> {
        let number = |field: &str| message.pointer(field).and_then(Value::as_i64);
        let seq = number("/seq").unwrap_or_default();
        match message.get("event").and_then(Value::as_str) {
            Some("ping") => {}
            Some("joined") => {
                let after = number("/roomId").and_then(|room| self.rooms.get_mut(&room)).unwrap();
                after.get_or_insert(seq);
                *joined += 1;
                self.log.seen().is_open = *joined == self.rooms.len();
            }
            Some("message") => {
                let room = number("/data/roomId").unwrap();
                self.rooms.insert(room, Some(seq));
                let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
                self.log.add(Stream::Room(room), seq, id);
            }
            Some("end") => return message.get("retryMs").and_then(Value::as_f64),
            _ => self.log.surprise(message.to_string()),
        }
        None
    }

    fn refused(&self, status: u16) -> End {
        if status < 500 {
            self.log.surprise(format!("an answer {status}"));
        }
        End::default()
    }
}

impl Connect for Rooms {
    fn log(&self) -> &Log {
        &self.log
    }

    async fn connect(&mut self) -> End {
        let mut socket = match self.open().await {
            Ok(socket) if socket.status == 101 => socket,
            Ok(refused) => return self.refused(refused.status),
            Err(_broken) => return End::default(),
        };
        let (mut joined, mut end) = (0, End::default());
        while let Ok(Some(Message::Text(message))) = timeout(SILENCE_MAX, socket.next()).await {
            if message.get("event").is_some_and(|event| event == "ping") {
                socket.send(&json!({ "type": "pong" })).await;
            }
            end.retry_ms = self.take(&message, &mut joined).or(end.retry_ms);
        }
        end.was_open = joined > 0;
        end
    }

    fn retry_ms(&self) -> Option<f64> {
        None
    }
}
