//! Frames: what clients see, encoded once and shared by all connections.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::ws::Utf8Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One frame. It is encoded once for each protocol, and shared by all connections; cloning it is cheap.
#[derive(Clone)]
pub struct Frame(Arc<Encoded>);

struct Encoded {
    seq: u64,
    sse: Bytes,
    ws: Utf8Bytes,
    is_silent: bool,
}

/// A frame as text, in the form of WebSocket messages: `{"event":…,"id":…,"seq":…,"data":…}`. Without an event it is silent.
#[derive(Serialize, Deserialize)]
struct Text<'a> {
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    event: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_zero")]
    seq: u64,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(seq: &u64) -> bool {
    *seq == 0
}

impl Frame {
    /// The frame with this number in its stream. SSE: `id`, `event` and `data` lines; WebSocket:
    /// `{"event":…,"id":…,"seq":…,"data":…}`. A client resumes after the last `id` that it has seen; an empty one is left out.
    /// Frames that are not part of a stream's sequence have the number 0, which is left out too. The event needs a name.
    pub fn new(seq: u64, id: &str, event: &str, data: &RawValue) -> Self {
        let (id, event, data) = (line(id), line(event), one_line(data));
        let sse = sse(&id, &event, data.get());
        let text = Text {
            event,
            id,
            seq,
            data: Some(&data),
        };
        Self(Arc::new(Encoded {
            seq,
            sse,
            ws: json(&text),
            is_silent: false,
        }))
    }

    /// A number of the stream that clients do not see: it advances the sequence.
    pub fn silent(seq: u64) -> Self {
        let text = Text {
            event: Cow::Borrowed(""),
            id: Cow::Borrowed(""),
            seq,
            data: None,
        };
        Self(Arc::new(Encoded {
            seq,
            sse: Bytes::new(),
            ws: json(&text),
            is_silent: true,
        }))
    }

    /// A message for WebSocket clients alone, in a form of its own and without a number: an answer to a message of theirs.
    pub fn reply(json: String) -> Self {
        Self::control(Bytes::new(), json)
    }

    /// A frame that concerns the connection and not a stream.
    pub(crate) fn control(sse: Bytes, ws: String) -> Self {
        Self(Arc::new(Encoded {
            seq: 0,
            sse,
            ws: ws.into(),
            is_silent: false,
        }))
    }

    /// The frame of a stream in a text that [`Frame::ws`] has made.
    pub(crate) fn parse(text: Utf8Bytes) -> Option<Self> {
        let (seq, sse, is_silent) = {
            let parsed: Text<'_> = serde_json::from_str(&text)
                .ok()
                .filter(|text: &Text<'_>| text.seq > 0)?;
            let is_silent = parsed.event.is_empty();
            let data = parsed.data.unwrap_or(RawValue::NULL).get();
            let sse = match is_silent {
                true => Bytes::new(),
                false => sse(&parsed.id, &parsed.event, data),
            };
            (parsed.seq, sse, is_silent)
        };
        Some(Self(Arc::new(Encoded {
            seq,
            sse,
            ws: text,
            is_silent,
        })))
    }

    /// Its number in its stream.
    pub fn seq(&self) -> u64 {
        self.0.seq
    }

    /// Its bytes in a stream of server-sent events.
    pub fn sse(&self) -> &Bytes {
        &self.0.sse
    }

    /// Its text as a WebSocket message.
    pub fn ws(&self) -> &Utf8Bytes {
        &self.0.ws
    }

    /// Whether clients do not see it.
    pub fn is_silent(&self) -> bool {
        self.0.is_silent
    }

    /// The memory that it holds, as far as queues count it.
    pub(crate) fn size(&self) -> usize {
        self.0.sse.len() + self.0.ws.len()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never its data.
        f.debug_struct("Frame")
            .field("seq", &self.0.seq)
            .field("size", &self.size())
            .field("is_silent", &self.0.is_silent)
            .finish()
    }
}

/// An identifier or a name as it can stand in a line of a stream.
fn line(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => text.chars().filter(|letter| !letter.is_control()).collect(),
        false => text.into(),
    }
}

/// JSON without line ends. They can only be white space: inside a JSON string they are escaped.
fn one_line(data: &RawValue) -> Cow<'_, RawValue> {
    match data.get().contains(['\n', '\r']) {
        true => match RawValue::from_string(data.get().replace(['\n', '\r'], " ")) {
            Ok(data) => Cow::Owned(data),
            Err(_impossible) => Cow::Borrowed(RawValue::NULL),
        },
        false => Cow::Borrowed(data),
    }
}

fn sse(id: &str, event: &str, data: &str) -> Bytes {
    let id = match id {
        "" => String::new(),
        id => format!("id: {id}\n"),
    };
    format!("{id}event: {event}\ndata: {data}\n\n").into()
}

fn json(text: &Text<'_>) -> Utf8Bytes {
    // Texts, a number and JSON always serialize.
    serde_json::to_string(text).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_frame_is_encoded_for_both_protocols() {
        let frame = Frame::new(7, "a-1", "chat", &raw(r#"{"roomId":10}"#));
        assert_eq!(
            frame.sse(),
            "id: a-1\nevent: chat\ndata: {\"roomId\":10}\n\n".as_bytes()
        );
        let expected = r#"{"event":"chat","id":"a-1","seq":7,"data":{"roomId":10}}"#;
        assert_eq!(frame.ws().as_str(), expected);
        assert!(!frame.is_silent());
    }

    #[test]
    fn nothing_in_a_frame_ends_its_lines() {
        let frame = Frame::new(1, "a\r\nid: b", "x\n\ny", &raw("{\r\n \"text\": \"a\\nb\"\n}"));
        let sse = std::str::from_utf8(frame.sse()).unwrap();
        assert_eq!(sse, "id: aid: b\nevent: xy\ndata: {   \"text\": \"a\\nb\" }\n\n");
    }

    #[test]
    fn an_empty_id_and_the_number_0_are_left_out() {
        let frame = Frame::new(0, "", "reset", &raw("{}"));
        assert_eq!(frame.sse(), "event: reset\ndata: {}\n\n".as_bytes());
        assert_eq!(frame.ws().as_str(), r#"{"event":"reset","data":{}}"#);
    }

    #[test]
    fn a_frame_survives_its_text() {
        for frame in [
            Frame::new(7, "a-1", "chat", &raw(r#"{"text":"\"안녕\" \\ ✓"}"#)),
            Frame::new(1, "", "a \"quoted\" name", &raw("null")),
            Frame::silent(u64::MAX),
        ] {
            let parsed = Frame::parse(frame.ws().clone()).unwrap();
            assert_eq!(parsed.seq(), frame.seq());
            assert_eq!(parsed.sse(), frame.sse());
            assert_eq!(parsed.is_silent(), frame.is_silent());
        }
        for text in ["", "[]", r#"{"event":"chat"}"#, r#"{"event":1}"#, r#"{"seq":-1}"#] {
            assert!(Frame::parse(text.into()).is_none(), "{text}");
        }
    }
}
