//! The events of chat. They carry numbers and no text: the text of a message stays in the tables of chat, so that a message that is
//! deleted leaves the outbox, its archive, the queues and the dead letters without its text.
//!
//! New fields are optional, and no field is ever removed. Readers ignore unknown fields.

use postroom::DomainEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The types of the events that are entries of a room.
pub(crate) const ENTRIES: [&str; 5] = [
    ChatMessageSent::TYPE,
    ChatMessageEdited::TYPE,
    ChatMessageDeleted::TYPE,
    ChatMemberEntered::TYPE,
    ChatMemberLeft::TYPE,
];

/// The types of the events that change what history shows.
pub(crate) const MESSAGES: [&str; 3] = [ChatMessageSent::TYPE, ChatMessageEdited::TYPE, ChatMessageDeleted::TYPE];

/// Makes a struct with the fields of an entry an event of its room.
macro_rules! of_room {
    ($event:ty, $type:literal) => {
        impl DomainEvent for $event {
            const TYPE: &'static str = $type;
            const AGGREGATE_TYPE: &'static str = "room";

            fn aggregate_id(&self) -> String {
                self.room_id.to_string()
            }
        }
    };
}

/// A member sent a message to a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessageSent {
    /// The room.
    pub room_id: i64,
    /// The number of the entry in its room.
    pub seq: i64,
    /// The message.
    pub message_id: i64,
    /// The member who sent it.
    pub sender_id: i64,
}
of_room!(ChatMessageSent, "community.chat.sent.v1");

/// A member changed the text of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessageEdited {
    /// The room.
    pub room_id: i64,
    /// The number of the entry in its room.
    pub seq: i64,
    /// The message.
    pub message_id: i64,
    /// The member who wrote it.
    pub sender_id: i64,
}
of_room!(ChatMessageEdited, "community.chat.edited.v1");

/// A member deleted a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessageDeleted {
    /// The room.
    pub room_id: i64,
    /// The number of the entry in its room.
    pub seq: i64,
    /// The message.
    pub message_id: i64,
    /// The member who wrote it.
    pub sender_id: i64,
}
of_room!(ChatMessageDeleted, "community.chat.deleted.v1");

/// A member came into a room that was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMemberEntered {
    /// The room.
    pub room_id: i64,
    /// The number of the entry in its room.
    pub seq: i64,
    /// The member.
    pub member_id: i64,
    /// The id of the member who added this member.
    pub actor_id: i64,
}
of_room!(ChatMemberEntered, "community.chat.entered.v1");

/// A member left a room, or was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMemberLeft {
    /// The room.
    pub room_id: i64,
    /// The number of the entry in its room.
    pub seq: i64,
    /// The member.
    pub member_id: i64,
    /// The id of the member who removed this member; its own id if it left.
    pub actor_id: i64,
}
of_room!(ChatMemberLeft, "community.chat.left.v1");
