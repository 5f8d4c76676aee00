//! The messages of clients over the WebSocket.

use serde::Deserialize;

/// A message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Inbound {
    /// Follow a room after this number; without one, from now on.
    Join { room_id: i64, after: Option<i64> },
    /// Follow it no longer. The member stays in the room.
    Leave { room_id: i64 },
    /// Send a message.
    Send {
        room_id: i64,
        client_msg_id: String,
        body: String,
    },
    /// Change the text of a message.
    Edit {
        room_id: i64,
        message_id: i64,
        body: String,
    },
    /// Delete a message.
    Delete { room_id: i64, message_id: i64 },
}

/// The ids that an error repeats, so that the client knows which of its messages failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Subject {
    pub(super) room_id: Option<i64>,
    pub(super) message_id: Option<i64>,
    pub(super) client_msg_id: Option<String>,
}

/// Reads a message. The error has a text that tells what is wrong, and the ids that the message has.
pub(super) fn parse(text: &str) -> Result<(Inbound, Subject), (String, Subject)> {
    let subject: Subject = serde_json::from_str(text).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(inbound) => Ok((inbound, subject)),
        Err(error) => Err((error.to_string(), subject)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_mistakes_name_the_message() {
        assert!(matches!(
            parse(r#"{"type":"join","roomId":10,"after":null}"#),
            Ok((
                Inbound::Join {
                    room_id: 10,
                    after: None
                },
                _
            ))
        ));
        assert!(matches!(
            parse(r#"{"type":"join","roomId":10,"after":4}"#),
            Ok((Inbound::Join { after: Some(4), .. }, _))
        ));
        let (edit, subject) = parse(r#"{"type":"edit","roomId":10,"messageId":5,"body":"b"}"#).unwrap();
        assert!(matches!(
            edit,
            Inbound::Edit {
                room_id: 10,
                message_id: 5,
                ..
            }
        ));
        assert_eq!((subject.room_id, subject.message_id), (Some(10), Some(5)));
        let check = |text: &str, says: &str, client_msg_id: Option<&str>| {
            let (error, subject) = parse(text).unwrap_err();
            assert!(error.contains(says), "{error}");
            assert_eq!(subject.client_msg_id.as_deref(), client_msg_id, "{text}");
        };
        check(
            r#"{"type":"send","roomId":1,"clientMsgId":"c"}"#,
            "missing field `body`",
            Some("c"),
        );
        check(r#"{"type":"dance"}"#, "unknown variant `dance`", None);
        check(r#"{"type":"send","roomId":"1"}"#, "invalid type", None);
    }
}
