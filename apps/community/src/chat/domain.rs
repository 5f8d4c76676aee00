//! The rules of rooms and messages, pure.

use std::collections::BTreeSet;
use std::fmt;

/// Members of a room at one time. Each message makes a row for each member, so a room is a group and no broadcast.
pub(crate) const ROOM_MEMBERS_MAX: usize = 500;
/// The longest name of a room, in characters.
pub(crate) const ROOM_NAME_CHARS_MAX: usize = 100;
/// The longest text of a message, in characters.
pub(crate) const TEXT_CHARS_MAX: usize = 4_000;
/// The longest id that a client gives a message, in bytes.
pub(crate) const CLIENT_MSG_ID_BYTES_MAX: usize = 64;

/// The reason why a request was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request breaks a rule that this text names.
    Invalid(String),
    /// There is no such room, or the caller is not in it: the answer does not tell which.
    UnknownRoom,
    /// There is no such message that the member can see.
    UnknownMessage,
    /// The room has as many members as it can have.
    RoomFull,
    /// Another member wrote the message.
    NotYourMessage,
    /// The message was deleted.
    Deleted,
    /// The client gave this id to a message with another text.
    ClientMsgIdReused,
    /// Only the owner of a room removes other members.
    NotOwner,
}

impl Refusal {
    /// The code for clients.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::UnknownRoom => "unknown_room",
            Self::UnknownMessage => "unknown_message",
            Self::RoomFull => "room_full",
            Self::NotYourMessage => "not_your_message",
            Self::Deleted => "message_deleted",
            Self::ClientMsgIdReused => "client_msg_id_reused",
            Self::NotOwner => "not_owner",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(says) => f.write_str(says),
            Self::UnknownRoom => f.write_str("there is no such room, or you are not in it"),
            Self::UnknownMessage => f.write_str("there is no such message in this room"),
            Self::RoomFull => write!(
                f,
                "a room has at most {ROOM_MEMBERS_MAX} members; remove a member first, or make another room"
            ),
            Self::NotYourMessage => f.write_str("another member wrote this message; only its sender changes it"),
            Self::Deleted => f.write_str("the message was deleted"),
            Self::ClientMsgIdReused => {
                f.write_str("you sent a message with this clientMsgId and another text; give each message a new id")
            }
            Self::NotOwner => f.write_str("only the owner of the room removes other members"),
        }
    }
}

/// The kind of an entry of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message was sent.
    Message,
    /// Its text was changed.
    Edit,
    /// It was deleted.
    Delete,
    /// A member came into the room.
    Enter,
    /// A member left the room, or was removed.
    Leave,
}

impl Kind {
    /// The name in the database.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Enter => "enter",
            Self::Leave => "leave",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Message, Self::Edit, Self::Delete, Self::Enter, Self::Leave]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The text of a message: not blank, not too long, no control characters but line breaks and tabs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn parse(text: String) -> Result<Self, Refusal> {
        check_text("body", &text, TEXT_CHARS_MAX, &['\n', '\t'])?;
        Ok(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id that a client gives a message, so that sending it again is the same message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientMsgId(String);

impl ClientMsgId {
    pub(crate) fn parse(text: String) -> Result<Self, Refusal> {
        let is_legal = !text.is_empty()
            && text.len() <= CLIENT_MSG_ID_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_legal {
            true => Ok(Self(text)),
            false => Err(Refusal::Invalid(format!(
                "clientMsgId must have 1 to {CLIENT_MSG_ID_BYTES_MAX} ASCII characters without spaces, such as a UUID"
            ))),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name of a room that can be used.
pub(crate) fn check_room_name(name: &str) -> Result<(), Refusal> {
    check_text("name", name, ROOM_NAME_CHARS_MAX, &[])
}

/// The first members of a room: those that its owner names, and the owner, each once.
pub(crate) fn first_members(owner_id: i64, named: &[i64]) -> Result<BTreeSet<i64>, Refusal> {
    if let Some(odd) = named.iter().find(|id| **id <= 0) {
        return Err(Refusal::Invalid(format!(
            "memberIds contains {odd}; the ids of members are positive"
        )));
    }
    let members: BTreeSet<i64> = named.iter().copied().chain([owner_id]).collect();
    match members.len() <= ROOM_MEMBERS_MAX {
        true => Ok(members),
        false => Err(Refusal::RoomFull),
    }
}

fn check_text(field: &str, text: &str, chars_max: usize, allowed: &[char]) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Invalid(format!(
            "{field} is empty; give 1 to {chars_max} characters"
        )));
    }
    let chars = text.chars().count();
    if chars > chars_max {
        return Err(Refusal::Invalid(format!(
            "{field} has {chars} characters, the limit is {chars_max}"
        )));
    }
    match text.chars().find(|c| c.is_control() && !allowed.contains(c)) {
        None => Ok(()),
        Some(odd) => Err(Refusal::Invalid(format!(
            "{field} contains the control character {odd:?}; remove it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_blank_not_too_long_and_has_no_control_characters() {
        let check = |text: &str, says: &str| {
            let refused = Text::parse(text.to_owned()).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        };
        check("", "body is empty");
        check(" \n\t ", "body is empty");
        check("a\0b", r"control character '\0'");
        check("a\rb", r"control character '\r'");
        check("a\u{85}b", r"control character '\u{85}'");
        check(&"é".repeat(TEXT_CHARS_MAX + 1), "4001 characters, the limit is 4000");
        for fine in ["1", "a\nb\tc", "안녕 👋🏽", &"é".repeat(TEXT_CHARS_MAX)] {
            assert_eq!(Text::parse(fine.to_owned()).unwrap().as_str(), fine);
        }
    }

    #[test]
    fn the_id_of_a_client_is_short_ascii() {
        let check = |id: &str, is_fine: bool| assert_eq!(ClientMsgId::parse(id.to_owned()).is_ok(), is_fine, "{id:?}");
        check("", false);
        check("a b", false);
        check("é", false);
        check(&"x".repeat(65), false);
        check(&"x".repeat(64), true);
        check("018f-A_b.c:1", true);
    }

    #[test]
    fn a_room_has_its_owner_and_a_limited_number_of_members() {
        assert_eq!(first_members(1, &[]).unwrap(), BTreeSet::from([1]));
        assert_eq!(first_members(1, &[2, 1, 2]).unwrap(), BTreeSet::from([1, 2]));
        assert!(matches!(first_members(1, &[0]), Err(Refusal::Invalid(_))));
        let many: Vec<i64> = (1..).take(ROOM_MEMBERS_MAX).collect();
        assert_eq!(first_members(1, &many).unwrap().len(), ROOM_MEMBERS_MAX);
        let full = first_members(1_000, &many).unwrap_err();
        assert!(full.to_string().contains("500"), "{full}");
    }

    #[test]
    fn a_room_has_a_name_in_one_line() {
        assert!(check_room_name("Lunch 점심").is_ok());
        for odd in ["", "  ", "a\nb", &"x".repeat(101)] {
            assert!(check_room_name(odd).is_err(), "{odd:?}");
        }
    }
}
