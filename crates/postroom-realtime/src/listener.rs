//! Listens to the fan-out: frames of all instances, and connections that must end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::Utf8Bytes;
use postroom::{CancellationToken, Result};
use postroom_shared::fan_out::{Listener, Message};
use serde::{Deserialize, Deserializer};
use tokio::time::sleep;
use uuid::Uuid;

use crate::evicted::Names;
use crate::hub::{Core, within};
use crate::{Frame, StreamKey};

/// The pause before the hub listens again: it begins with the first, and doubles up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How long the subscription may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Begins a message to all hubs, in place of a stream's name, which has no such letter.
const EVICTED: &str = "!evicted";

/// A message with a frame: the stream's name on a line, then the text of the frame.
pub(crate) fn message(channel: &str, stream: &StreamKey, frame: &Frame) -> Message {
    note(channel, stream.as_str(), frame.ws())
}

/// A message that names an evicted client.
pub(crate) fn evicted(channel: &str, names: &Names) -> Message {
    let names = serde_json::to_string(names).unwrap_or_default(); // a list of numbers always serializes
    note(channel, EVICTED, &names)
}

fn note(channel: &str, title: &str, text: &str) -> Message {
    Message {
        channel: channel.to_owned(),
        body: [title, "\n", text].concat().into_bytes(),
    }
}

/// Listens until the stop. Whenever it begins to listen, every stream may have missed something.
pub(crate) async fn run(hub: Arc<Core>, stop: CancellationToken) {
    let mut pause = PAUSE.0;
    while !stop.is_cancelled() {
        let error = match stop.run_until_cancelled(listen(&hub)).await {
            None => return,
            Some(Err(error)) => error,
            Some(Ok(listener)) => {
                hub.link.listens();
                hub.repairs.all_unchecked();
                pause = PAUSE.0;
                match stop.run_until_cancelled(receive_all(&hub, listener)).await {
                    None => return,
                    Some(error) => error,
                }
            }
        };
        hub.link.is_deaf(hub.now());
        hub.metrics.listener_failed();
        tracing::warn!(
            hub = hub.settings.name,
            error = error.report(),
            "the hub listens again soon"
        );
        stop.run_until_cancelled(sleep(pause.mul_f64(0.75 + 0.5 * rand::random::<f64>())))
            .await;
        pause = (2 * pause).min(PAUSE.1);
    }
}

async fn listen(hub: &Core) -> Result<Box<dyn Listener>> {
    let own = hub.settings.channel();
    let evictions = hub.settings.limits.as_ref().map(|limits| limits.evictions.as_str());
    let channels: Vec<&str> = [own.as_str()].into_iter().chain(evictions).collect();
    let fan_out = &hub.slot.get()?.fan_out;
    within(PATIENCE, "listen to the fan-out", fan_out.listen(&channels)).await
}

/// Receives until the listener fails.
async fn receive_all(hub: &Arc<Core>, mut listener: Box<dyn Listener>) -> postroom::Error {
    let own = hub.settings.channel();
    loop {
        match listener.next().await {
            Ok(message) if message.channel == own => receive(hub, message.body),
            Ok(message) => disconnect(hub, &message.body),
            Err(error) => return error,
        }
    }
}

fn receive(hub: &Core, body: Vec<u8>) {
    let body = Bytes::from(body);
    let split = body.iter().position(|byte| *byte == b'\n');
    let parts = split.and_then(|end| {
        let title = std::str::from_utf8(body.get(..end)?).ok()?;
        let text = Utf8Bytes::try_from(body.slice(end + 1..)).ok()?;
        Some((title, text))
    });
    let is_understood = match parts {
        None => false,
        Some((EVICTED, names)) => match serde_json::from_str(&names) {
            Ok(names) => {
                hub.evicted.remember(&names, hub.now());
                true
            }
            Err(_error) => false,
        },
        Some((stream, text)) => deliver(hub, stream, text),
    };
    if !is_understood {
        hub.metrics.malformed();
        tracing::debug!(hub = hub.settings.name, "a message on the hub's channel is malformed");
    }
}

/// Delivers a frame to all connections of its stream; answers whether it is a frame. Nothing here waits.
fn deliver(hub: &Core, stream: &str, text: Utf8Bytes) -> bool {
    hub.metrics.received();
    let Some((key, audience)) = hub.audiences.of(stream) else {
        return true;
    };
    let Some(frame) = Frame::parse(text) else {
        return false;
    };
    hub.deliver(&key, &audience, &frame);
    true
}

/// A connection that must end, as the registry or an operator announces it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Disconnect {
    #[serde(default, deserialize_with = "text_or_number")]
    member_id: Option<String>,
    connection_id: Uuid,
}

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(i64),
    }
    Ok(Some(match Id::deserialize(deserializer)? {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    }))
}

fn disconnect(hub: &Core, body: &[u8]) {
    match serde_json::from_slice::<Disconnect>(body) {
        Ok(named) => hub.evict(named.connection_id, named.member_id.as_deref()),
        Err(error) => {
            hub.metrics.malformed();
            tracing::debug!(hub = hub.settings.name, %error, "a message on the channel of evictions is malformed");
        }
    }
}

/// The message that ends a connection, on whichever instance it is.
pub(crate) fn disconnection(channel: &str, member: &str, connection: Uuid) -> Message {
    let body = serde_json::json!({ "memberId": member, "connectionId": connection });
    Message {
        channel: channel.to_owned(),
        body: body.to_string().into_bytes(),
    }
}
