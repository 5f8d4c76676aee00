//! One conversation: reads and writes side by side, so that a message that takes long delays no frame.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as ProtocolError;
use tokio_util::sync::CancellationToken;

use super::{Conversation, Denied};
use crate::{Connection, Frame, Hub, Next, Reason, Refused};

/// How long a client may take to authenticate itself.
const AUTH_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the application may take for a message.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a client may take to confirm the end.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);
/// After so many bytes the socket is flushed, also if more is queued.
const FLUSH_BYTES: usize = 64 << 10;

type Sink = SplitSink<WebSocket, Message>;
type Stream = SplitStream<WebSocket>;

/// The end of a conversation for another cause than a [`Reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Ended(Reason),
    NotAuthenticated,
    TokenRefused,
    NotText,
    TooBig,
    Protocol,
    Failed,
}

impl Close {
    fn code(self) -> u16 {
        match self {
            Self::Ended(reason) => reason.close_code(),
            Self::NotAuthenticated => 4005,
            Self::TokenRefused => 4006,
            Self::Protocol => 1002,
            Self::NotText => 1003,
            Self::TooBig => 1009,
            Self::Failed => 1011,
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Ended(reason) => reason.as_str(),
            Self::NotAuthenticated => "auth_timeout",
            Self::TokenRefused => "unauthenticated",
            Self::Protocol => "protocol",
            Self::NotText => "text_only",
            Self::TooBig => "too_large",
            Self::Failed => "failed",
        }
    }

    fn message(self) -> Message {
        Message::Close(Some(CloseFrame {
            code: self.code(),
            reason: Utf8Bytes::from_static(self.says()),
        }))
    }
}

impl From<&Refused> for Close {
    fn from(refused: &Refused) -> Self {
        match refused {
            Refused::Evicted => Self::Ended(Reason::Evicted),
            Refused::Unavailable { .. } => Self::Ended(Reason::Unavailable),
            Refused::Failed(_) => Self::Failed,
        }
    }
}

/// The part of a message that every type has.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    token: Option<Cow<'a, str>>,
}

/// Speaks with a client until one of them ends it.
pub(super) async fn run(
    hub: Hub,
    socket: WebSocket,
    connection: Option<Connection>,
    conversation: Arc<dyn Conversation>,
) {
    let _present = hub.core.presence.enter();
    let (mut sink, mut stream) = socket.split();
    let connection = match connection {
        Some(connection) => Ok(connection),
        None => authenticate(&hub, &mut stream, &*conversation).await,
    };
    let close = match connection {
        Ok(connection) => speak(&connection, (&mut sink, &mut stream), &*conversation).await,
        Err(close) => close,
    };
    if let Some(close) = close {
        end((&mut sink, &mut stream), close).await;
    }
}

/// Says why, and waits a moment for the client to confirm it. If the connection were closed with bytes unread, the system would reset
/// it, and the client could lose the reason.
async fn end((sink, stream): (&mut Sink, &mut Stream), close: Close) {
    let goodbye = async {
        if sink.send(close.message()).await.is_ok() {
            while let Some(Ok(_)) = stream.next().await {}
        }
    };
    if timeout(CLOSE_TIME_MAX, goodbye).await.is_err() {
        tracing::debug!(
            reason = close.says(),
            "a client did not confirm the end of its connection"
        );
    }
}

/// The connection of a client that authenticates itself in its first message. The error is `None` if the client has gone.
async fn authenticate(
    hub: &Hub,
    stream: &mut Stream,
    conversation: &dyn Conversation,
) -> Result<Connection, Option<Close>> {
    let first = tokio::select! {
        () = hub.core.link.drained() => return Err(Some(Close::Ended(Reason::Drain))),
        first = timeout(AUTH_TIME_MAX, text(stream)) => first,
    };
    let text = first.map_err(|_elapsed| Some(Close::NotAuthenticated))??;
    let head: Option<Head<'_>> = serde_json::from_str(&text).ok();
    let token = head.filter(|head| head.kind == "auth").and_then(|head| head.token);
    let token = token.ok_or(Some(Close::NotAuthenticated))?;
    let client = match timeout(MESSAGE_TIME_MAX, conversation.authenticate(&token)).await {
        Ok(Ok(client)) => client,
        Ok(Err(Denied(_))) => return Err(Some(Close::TokenRefused)),
        Err(_elapsed) => return Err(Some(Close::Failed)),
    };
    hub.open(client, Vec::new())
        .await
        .map_err(|refused| Some((&refused).into()))
}

/// The next text of a client.
async fn text(stream: &mut Stream) -> Result<Utf8Bytes, Option<Close>> {
    loop {
        return match stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(text),
            Some(Ok(Message::Binary(_))) => Err(Some(Close::NotText)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Err(error)) => Err(mistake(error)),
            Some(Ok(Message::Close(_))) | None => Err(None),
        };
    }
}

/// The mistake of the client; `None` if its connection broke.
fn mistake(error: axum::Error) -> Option<Close> {
    match error.into_inner().downcast_ref::<ProtocolError>() {
        Some(ProtocolError::Capacity(_)) => Some(Close::TooBig),
        Some(ProtocolError::Protocol(_) | ProtocolError::Utf8(_)) => Some(Close::Protocol),
        _ => None,
    }
}

/// Reads and writes until one of them ends; answers what the client is told.
async fn speak(
    connection: &Connection,
    (sink, stream): (&mut Sink, &mut Stream),
    conversation: &dyn Conversation,
) -> Option<Close> {
    let over = CancellationToken::new();
    let write = async {
        let outcome = write_all(connection, sink, (conversation, &over)).await;
        over.cancel();
        outcome
    };
    let read = async {
        let outcome = read_all(connection, stream, (conversation, &over)).await;
        over.cancel();
        outcome
    };
    let (written, read) = tokio::join!(write, read);
    written.map(Close::Ended).or(read)
}

/// Writes what the connection shows; answers why the server ended it.
async fn write_all(
    connection: &Connection,
    sink: &mut Sink,
    (conversation, over): (&dyn Conversation, &CancellationToken),
) -> Option<Reason> {
    loop {
        let mut next = Some(over.run_until_cancelled(connection.next()).await??);
        let mut bytes = 0;
        while let Some(item) = next {
            let (frame, reason) = match item {
                Next::Frame(frame) => (frame, None),
                Next::End(reason, frame) => (frame, Some(reason)),
            };
            if !frame.ws().is_empty() && (reason.is_some() || conversation.shows(connection, &frame)) {
                bytes += frame.ws().len();
                let message = Message::Text(frame.ws().clone());
                over.run_until_cancelled(sink.feed(message)).await?.ok()?;
            }
            if reason.is_some() {
                return reason; // it is flushed with the close
            }
            next = match bytes < FLUSH_BYTES {
                true => connection.take(),
                false => None,
            };
        }
        over.run_until_cancelled(sink.flush()).await?.ok()?;
    }
}

/// Hands the messages of the client to the application; answers what the client did wrong.
async fn read_all(
    connection: &Connection,
    stream: &mut Stream,
    (conversation, over): (&dyn Conversation, &CancellationToken),
) -> Option<Close> {
    conversation.begin(connection).await;
    while !connection.has_ended() {
        let message = match over.run_until_cancelled(text(stream)).await? {
            Ok(message) => message,
            Err(close) => return close,
        };
        // A message that has begun is handled to its end, also if the connection ends meanwhile.
        let handled = timeout(MESSAGE_TIME_MAX, handle(connection, conversation, &message)).await;
        if handled.is_err() {
            connection.show(error(
                "timeout",
                "the message took too long; nobody knows whether it had an effect",
            ));
        }
    }
    // The writing half tells the reason.
    over.cancelled().await;
    None
}

async fn handle(connection: &Connection, conversation: &dyn Conversation, message: &str) {
    let Ok(head) = serde_json::from_str::<Head<'_>>(message) else {
        return connection.show(error("malformed", "a message is a JSON object with a `type`"));
    };
    match (&*head.kind, &head.token) {
        ("pong", _) => {}
        // The client is authenticated already.
        ("auth", _) => {}
        ("refresh", Some(token)) => refresh(connection, conversation, token).await,
        ("refresh", None) => connection.show(error("malformed", "a `refresh` has a `token`")),
        _ => conversation.receive(connection, message).await,
    }
}

/// Takes a new token in place of one that expires.
async fn refresh(connection: &Connection, conversation: &dyn Conversation, token: &str) {
    match conversation.authenticate(token).await {
        Ok(client) if client.member() == connection.member() => {
            connection.refresh(client.expires_at());
            connection.show(Frame::reply(json!({ "event": "refreshed" }).to_string()));
        }
        Ok(_) => connection.show(error("forbidden", "the token is that of another member")),
        Err(Denied(detail)) => connection.show(error("unauthenticated", &detail)),
    }
}

fn error(code: &str, detail: &str) -> Frame {
    Frame::reply(json!({ "event": "error", "code": code, "detail": detail }).to_string())
}
