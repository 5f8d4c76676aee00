//! A connection as a conversation over a WebSocket: frames go to the client, and its messages go to the application.
//!
//! Messages are JSON texts with a `type`. `auth`, `refresh` and `pong` are answered here; the application gets all others.

mod session;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::{IntoResponse, Response};

use crate::{Client, Connection, Frame, Hub};

/// Small, because an idle connection keeps them.
const BUFFER_BYTES: usize = 4 << 10;
/// Of what a client does not take: one that reads nothing is closed. A frame of any size must fit.
const UNSENT_BYTES_MAX: usize = 16 << 20;
/// Of a message of a client.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The application's side of conversations.
#[async_trait]
pub trait Conversation: fmt::Debug + Send + Sync {
    /// The client with this token, which it has sent in its first message or in place of one that expires.
    async fn authenticate(&self, token: &str) -> Result<Client, Denied>;

    /// A client may speak now.
    async fn begin(&self, _connection: &Connection) {}

    /// A message of a client: JSON with a `type`. The next one waits until this is handled; frames go on meanwhile. Answer with
    /// [`Connection::show`]. A call that takes longer than 30 s is given up.
    async fn receive(&self, connection: &Connection, message: &str);

    /// Whether the client is shown this frame. It is called for each frame, just before it is written: here an application notices
    /// in the order of the stream that a client may follow it no longer, and keeps back what was queued before
    /// [`Connection::unfollow`]. It must not wait.
    fn shows(&self, _connection: &Connection, _frame: &Frame) -> bool {
        true
    }
}

/// Why a token is not accepted, in words for the developer of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied(pub String);

/// Answers a request for a WebSocket. A client that the application does not know yet, from a header or a ticket, authenticates
/// itself in its first message, within 10 seconds.
///
/// The server has checked the `Origin` of the request before.
pub async fn upgrade(
    hub: &Hub,
    upgrade: WebSocketUpgrade,
    client: Option<Client>,
    conversation: Arc<dyn Conversation>,
) -> Response {
    let connection = match client {
        None => None,
        Some(client) => match hub.open(client, Vec::new()).await {
            Ok(connection) => Some(connection),
            Err(refused) => return refused.into_response(),
        },
    };
    let hub = hub.clone();
    upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(UNSENT_BYTES_MAX)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(move |socket| session::run(hub, socket, connection, conversation))
}
