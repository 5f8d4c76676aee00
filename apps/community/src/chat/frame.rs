//! The frames by which members see an entry: frames of the room on WebSockets, and `chat` frames of the member's own stream. Pure.
//!
//! A deleted message that is read again keeps its number and has no text. So a client that resumes gets every number once, and
//! never a deleted text.

use postroom::Result;
use postroom_realtime::{Frame, StreamKey};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::domain::Kind;
use super::tables::entry::Entry;

/// The longest text in a stream of server-sent events, in characters. The room has the whole text.
const PREVIEW_CHARS_MAX: usize = 1_000;
/// The beginning of the name of a room's stream. The number of the room follows.
const STREAM: &str = "room/";

/// The stream of a room.
pub(crate) fn stream(room_id: i64) -> StreamKey {
    StreamKey::from(format!("{STREAM}{room_id}"))
}

/// The room of a stream.
pub(crate) fn room_of(stream: &StreamKey) -> Option<i64> {
    stream.as_str().strip_prefix(STREAM)?.parse().ok()
}

/// The content of a frame about a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    room_id: i64,
    message_id: i64,
    sender_id: i64,
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    is_deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_msg_id: Option<&'a str>,
    at: i64,
}

/// The content of a frame about a member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    room_id: i64,
    member_id: i64,
    actor_id: i64,
    at: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The name of the frame for an entry of this kind.
pub(crate) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Message => "message",
        Kind::Edit => "edited",
        Kind::Delete => "deleted",
        Kind::Enter => "entered",
        Kind::Leave => "left",
    }
}

/// The frame of the room.
pub(crate) fn of_room(entry: &Entry) -> Result<Frame> {
    let data = match entry.kind {
        Kind::Message | Kind::Edit | Kind::Delete => to_raw_value(&Message {
            room_id: entry.room_id,
            message_id: entry.message_id.unwrap_or(entry.seq),
            sender_id: entry.sender_id,
            body: entry.body.as_deref(),
            is_deleted: entry.body.is_none(),
            client_msg_id: entry.client_msg_id.as_deref(),
            at: entry.created_ms,
        })?,
        Kind::Enter | Kind::Leave => to_raw_value(&Member {
            room_id: entry.room_id,
            member_id: entry.member_id.unwrap_or(entry.sender_id),
            actor_id: entry.sender_id,
            at: entry.created_ms,
        })?,
    };
    let seq = u64::try_from(entry.seq).unwrap_or_default();
    Ok(Frame::new(seq, &entry.event_id.to_string(), name(entry.kind), &data))
}

/// The content of a `chat` frame of a member's stream. The stream adds its own number and the unread notifications.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preview<'a> {
    room_id: i64,
    sender_id: i64,
    message: &'a str,
    message_id: i64,
    room_seq: i64,
    kind: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    is_cut: bool,
    #[serde(skip_serializing_if = "is_false")]
    is_deleted: bool,
    at: i64,
}

/// The content of the `chat` frame for an entry; `None` for entries about members who come and go.
pub(crate) fn of_member(entry: &Entry) -> Result<Option<Box<RawValue>>> {
    let Some(message_id) = entry.message_id else {
        return Ok(None);
    };
    let text = entry.body.as_deref().unwrap_or_default();
    let cut = text.char_indices().nth(PREVIEW_CHARS_MAX).map(|(at, _)| at);
    let preview = Preview {
        room_id: entry.room_id,
        sender_id: entry.sender_id,
        message: cut.and_then(|at| text.get(..at)).unwrap_or(text),
        message_id,
        room_seq: entry.seq,
        kind: entry.kind.name(),
        is_cut: cut.is_some(),
        is_deleted: entry.body.is_none(),
        at: entry.created_ms,
    };
    Ok(Some(to_raw_value(&preview)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn entry(kind: Kind, body: Option<&str>) -> Entry {
        let is_message = matches!(kind, Kind::Message | Kind::Edit | Kind::Delete);
        Entry {
            room_id: 10,
            seq: 42,
            kind,
            sender_id: 2,
            message_id: is_message.then_some(40),
            member_id: (!is_message).then_some(3),
            client_msg_id: (kind == Kind::Message).then(|| "c-1".to_owned()),
            event_id: Uuid::nil(),
            body: body.map(str::to_owned),
            created_ms: 7,
        }
    }

    #[test]
    fn each_kind_has_its_frame() {
        let check = |kind: Kind, body: Option<&str>, event: &str, data: Value| {
            let frame: Value = serde_json::from_str(of_room(&entry(kind, body)).unwrap().ws()).unwrap();
            let expected = json!({ "event": event, "id": Uuid::nil(), "seq": 42, "data": data });
            assert_eq!(frame, expected);
        };
        let of = |more: Value| {
            let mut data = json!({ "roomId": 10, "messageId": 40, "senderId": 2, "at": 7 });
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            data
        };
        check(
            Kind::Message,
            Some("a"),
            "message",
            of(json!({ "body": "a", "clientMsgId": "c-1" })),
        );
        check(Kind::Edit, Some("b"), "edited", of(json!({ "body": "b" })));
        check(
            Kind::Delete,
            None,
            "deleted",
            of(json!({ "body": null, "isDeleted": true })),
        );
        let gone = of(json!({ "body": null, "isDeleted": true, "clientMsgId": "c-1" }));
        check(Kind::Message, None, "message", gone);
        let member = json!({ "roomId": 10, "memberId": 3, "actorId": 2, "at": 7 });
        check(Kind::Enter, None, "entered", member.clone());
        check(Kind::Leave, None, "left", member);
    }

    #[test]
    fn the_stream_of_a_member_has_the_beginning_of_a_text() {
        let read = |kind: Kind, body: Option<&str>| -> Value {
            let data = of_member(&entry(kind, body)).unwrap().unwrap();
            serde_json::from_str(data.get()).unwrap()
        };
        let expected = json!({ "roomId": 10, "senderId": 2, "message": "a", "messageId": 40, "roomSeq": 42, "kind": "message", "at": 7 });
        assert_eq!(read(Kind::Message, Some("a")), expected);
        let long = "👋".repeat(PREVIEW_CHARS_MAX + 1);
        let preview = read(Kind::Edit, Some(&long));
        assert_eq!(preview["message"].as_str().unwrap().chars().count(), PREVIEW_CHARS_MAX);
        assert_eq!((&preview["isCut"], &preview["kind"]), (&json!(true), &json!("edit")));
        let gone = read(Kind::Delete, None);
        assert_eq!((&gone["message"], &gone["isDeleted"]), (&json!(""), &json!(true)));
        assert!(of_member(&entry(Kind::Enter, None)).unwrap().is_none());
    }

    #[test]
    fn a_stream_names_its_room() {
        assert_eq!(room_of(&stream(7)), Some(7));
        for other in ["member/7", "room/x", "room/"] {
            assert_eq!(room_of(&StreamKey::from(other)), None, "{other}");
        }
    }
}
