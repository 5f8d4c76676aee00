//! Numbers the entries of a room, in the transaction that makes them.
//!
//! The row of the room is the lock. So numbers have no holes, the order of the numbers is the order of the commits, and the members
//! of the room do not change between the check and the entry.

use postroom::{DomainEvent, Event, Result, Tx, append};
use uuid::Uuid;

use super::domain::{Kind, Refusal};
use super::events::{ChatMemberEntered, ChatMemberLeft, ChatMessageDeleted, ChatMessageEdited, ChatMessageSent};
use super::failure::Failure;
use super::tables::entry::{self, Entry};
use super::tables::member::{self, Membership};
use super::tables::room::{self, Room};
use super::tables::unstored;
use crate::tables::now_ms;

/// A room that is locked until the transaction ends, and the member who acts in it.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) room: Room,
    pub(crate) actor: Membership,
}

/// The content of an entry. The room gives the entry its number.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A new message.
    Message { client_msg_id: String, body: String },
    /// A new text of a message.
    Edit { message_id: i64, body: String },
    /// The deletion of a message.
    Delete { message_id: i64 },
    /// A new member.
    Enter { member_id: i64 },
    /// A member who has left.
    Leave { member_id: i64 },
}

impl Locked {
    /// Locks a room for a member. The membership is read before the lock, so that a request of a member who is not in the room
    /// locks nothing, and again under the lock.
    pub(crate) async fn lock(tx: &Tx, room_id: i64, actor_id: i64) -> Result<Self, Failure> {
        let unknown = || Failure::Refused(Refusal::UnknownRoom);
        member::find(tx, room_id, actor_id).await?.ok_or_else(unknown)?;
        let room = room::lock(tx, room_id).await?.ok_or_else(unknown)?;
        let actor = member::find(tx, room_id, actor_id).await?.ok_or_else(unknown)?;
        Ok(Self { room, actor })
    }

    /// Adds an entry with the next number, and emits its event.
    pub(crate) async fn add(&mut self, tx: &Tx, content: Content) -> Result<Entry> {
        let mut entry = self.next(content);
        let event = event_of(&entry)?;
        entry.event_id = event.id;
        room::advance(tx, entry.room_id, entry.seq, entry.created_ms).await?;
        entry::insert(tx, &entry).await?;
        if entry.message_id.is_some() {
            unstored::insert(tx, entry.room_id, entry.seq).await?;
        }
        append(tx, &[event]).await?;
        (self.room.seq, self.room.last_ms) = (entry.seq, entry.created_ms);
        Ok(entry)
    }

    fn next(&self, content: Content) -> Entry {
        let seq = self.room.seq + 1;
        let mut entry = Entry {
            room_id: self.room.room_id,
            seq,
            kind: Kind::Message,
            sender_id: self.actor.member_id,
            message_id: None,
            member_id: None,
            client_msg_id: None,
            event_id: Uuid::nil(),
            body: None,
            // The clocks of instances differ; the times of a room follow its numbers.
            created_ms: now_ms().max(self.room.last_ms),
        };
        match content {
            Content::Message { client_msg_id, body } => {
                (entry.message_id, entry.client_msg_id, entry.body) = (Some(seq), Some(client_msg_id), Some(body));
            }
            Content::Edit { message_id, body } => {
                (entry.kind, entry.message_id, entry.body) = (Kind::Edit, Some(message_id), Some(body));
            }
            Content::Delete { message_id } => (entry.kind, entry.message_id) = (Kind::Delete, Some(message_id)),
            Content::Enter { member_id } => (entry.kind, entry.member_id) = (Kind::Enter, Some(member_id)),
            Content::Leave { member_id } => (entry.kind, entry.member_id) = (Kind::Leave, Some(member_id)),
        }
        entry
    }
}

fn event_of(entry: &Entry) -> Result<Event> {
    let Entry {
        room_id,
        seq,
        sender_id,
        ..
    } = *entry;
    let (message_id, member_id) = (entry.message_id.unwrap_or(seq), entry.member_id.unwrap_or(sender_id));
    match entry.kind {
        Kind::Message => event(&ChatMessageSent {
            room_id,
            seq,
            message_id,
            sender_id,
        }),
        Kind::Edit => event(&ChatMessageEdited {
            room_id,
            seq,
            message_id,
            sender_id,
        }),
        Kind::Delete => event(&ChatMessageDeleted {
            room_id,
            seq,
            message_id,
            sender_id,
        }),
        Kind::Enter => event(&ChatMemberEntered {
            room_id,
            seq,
            member_id,
            actor_id: sender_id,
        }),
        Kind::Leave => event(&ChatMemberLeft {
            room_id,
            seq,
            member_id,
            actor_id: sender_id,
        }),
    }
}

fn event<E: DomainEvent>(event: &E) -> Result<Event> {
    Event::of(event)
}
