//! Sending, changing and deleting messages: one transaction each, with its event.

use postroom::Tx;
use postroom_host::Host;
use serde::Serialize;
use uuid::Uuid;

use super::domain::{ClientMsgId, Kind, Refusal, Text};
use super::failure::{Failure, attempt};
use super::numbered::{Content, Locked};
use super::tables::entry::{self, Entry};
use super::tables::preview;

/// The answer to the sender: the entry has its number, and everybody will see it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sent {
    /// The number of the entry in its room.
    pub(crate) seq: i64,
    /// The id of its event, for `postroom why`.
    pub(crate) event_id: Uuid,
    /// The message: the number of its first entry.
    pub(crate) message_id: i64,
}

impl From<Entry> for Sent {
    fn from(entry: Entry) -> Self {
        Self {
            seq: entry.seq,
            event_id: entry.event_id,
            message_id: entry.message_id.unwrap_or(entry.seq),
        }
    }
}

/// A message in a room, as its sender names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) room_id: i64,
    pub(crate) sender_id: i64,
    pub(crate) message_id: i64,
}

/// Sends a message. The same message sent again, also at the same time and through another instance, is one message, and each call
/// gets the same answer.
pub(crate) async fn send(
    host: &Host,
    (room_id, sender_id): (i64, i64),
    client_msg_id: &ClientMsgId,
    text: &Text,
) -> Result<Sent, Failure> {
    attempt!(try_send(host, (room_id, sender_id), client_msg_id, text))
}

async fn try_send(
    host: &Host,
    (room_id, sender_id): (i64, i64),
    client_msg_id: &ClientMsgId,
    text: &Text,
) -> Result<Sent, Failure> {
    let tx = host.begin().await?;
    let mut locked = Locked::lock(&tx, room_id, sender_id).await?;
    // Under the lock: a resend that waited for it finds the message, and takes no number.
    if let Some(known) = entry::sent_as(&tx, room_id, sender_id, client_msg_id.as_str()).await? {
        return match known.body.as_deref().is_none_or(|body| body == text.as_str()) {
            true => Ok(known.into()),
            false => Err(Refusal::ClientMsgIdReused.into()),
        };
    }
    let message = Content::Message {
        client_msg_id: client_msg_id.as_str().to_owned(),
        body: text.as_str().to_owned(),
    };
    let sent = locked.add(&tx, message).await?;
    tx.commit().await?;
    Ok(sent.into())
}

/// Changes the text of a message. The text that it has already makes no entry: the answer names the entry that set it.
pub(crate) async fn edit(host: &Host, target: Target, text: &Text) -> Result<Sent, Failure> {
    attempt!(try_edit(host, target, text))
}

async fn try_edit(host: &Host, target: Target, text: &Text) -> Result<Sent, Failure> {
    let tx = host.begin().await?;
    let (mut locked, newest) = lock_own(&tx, target).await?;
    if newest.kind == Kind::Delete {
        return Err(Refusal::Deleted.into());
    }
    if newest.body.as_deref() == Some(text.as_str()) {
        return Ok(newest.into());
    }
    let edit = Content::Edit {
        message_id: target.message_id,
        body: text.as_str().to_owned(),
    };
    let edited = locked.add(&tx, edit).await?;
    tx.commit().await?;
    Ok(edited.into())
}

/// Deletes a message, and removes its text from all entries. A message that was deleted stays so: the answer names the entry that
/// deleted it.
pub(crate) async fn delete(host: &Host, target: Target) -> Result<Sent, Failure> {
    attempt!(try_delete(host, target))
}

async fn try_delete(host: &Host, target: Target) -> Result<Sent, Failure> {
    let tx = host.begin().await?;
    let (mut locked, newest) = lock_own(&tx, target).await?;
    if newest.kind == Kind::Delete {
        return Ok(newest.into());
    }
    let message_id = target.message_id;
    let deleted = locked.add(&tx, Content::Delete { message_id }).await?;
    entry::erase_text(&tx, target.room_id, message_id).await?;
    preview::erase(&tx, &deleted).await?;
    tx.commit().await?;
    Ok(deleted.into())
}

/// Locks the room of a message that its sender changes; answers the newest entry of the message.
async fn lock_own(tx: &Tx, target: Target) -> Result<(Locked, Entry), Failure> {
    let Target {
        room_id,
        sender_id,
        message_id,
    } = target;
    let locked = Locked::lock(tx, room_id, sender_id).await?;
    let first = entry::find(tx, room_id, message_id).await?;
    let first = first.filter(|entry| entry.kind == Kind::Message && entry.seq > locked.actor.joined_seq);
    let first = first.ok_or(Refusal::UnknownMessage)?;
    if first.sender_id != sender_id {
        return Err(Refusal::NotYourMessage.into());
    }
    let newest = entry::newest_of(tx, room_id, message_id).await?;
    Ok((locked, newest.unwrap_or(first)))
}
