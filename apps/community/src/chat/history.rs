//! History: written by the worker `chat_persist`, read by members. It is not needed to see a room live.

use std::collections::BTreeMap;

use postroom::{Event, Result, Tx};
use postroom_host::Host;
use serde::Deserialize;

use super::domain::{Kind, Refusal};
use super::failure::Failure;
use super::tables::entry::{self, Entry};
use super::tables::history::{self, Stored};
use super::tables::{by_room, member, unstored};

/// Fields that the three events of a message share.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    room_id: i64,
    seq: i64,
    message_id: i64,
}

/// `chat_persist`: stores each message in the state that its entries have now. So the order and the number of runs do not matter:
/// an event that was a dead letter while the message was changed stores the changed message.
pub(crate) async fn store(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let changed: Vec<Changed> = events.iter().map(|event| event.decode()).collect::<Result<_>>()?;
    let messages = by_room(changed.iter().map(|change| (change.room_id, change.message_id)));
    let entries = entry::of_messages(tx, &messages).await?;
    history::put(tx, &states(&entries)).await?;
    let seqs = by_room(changed.iter().map(|change| (change.room_id, change.seq)));
    unstored::remove(tx, &seqs).await
}

/// The states of the messages that these entries belong to. A message is left out if retention has removed its first entry.
fn states(entries: &[Entry]) -> Vec<Stored> {
    let mut states: BTreeMap<(i64, i64), Stored> = BTreeMap::new();
    for entry in entries {
        let Some(message_id) = entry.message_id else {
            continue;
        };
        let known = states.get_mut(&(entry.room_id, message_id));
        match (entry.kind, known) {
            (Kind::Message, _) => drop(states.insert((entry.room_id, message_id), begun(entry))),
            (Kind::Edit, Some(state)) => {
                (state.seq, state.body, state.edited_ms) = (entry.seq, entry.body.clone(), Some(entry.created_ms));
            }
            (Kind::Delete, Some(state)) => (state.seq, state.body) = (entry.seq, None),
            _ => {}
        }
    }
    states.into_values().collect()
}

fn begun(entry: &Entry) -> Stored {
    Stored {
        room_id: entry.room_id,
        message_id: entry.seq,
        seq: entry.seq,
        sender_id: entry.sender_id,
        client_msg_id: entry.client_msg_id.clone().unwrap_or_default(),
        event_id: entry.event_id,
        body: entry.body.clone(),
        sent_ms: entry.created_ms,
        edited_ms: None,
    }
}

/// Stored messages of a room that the member sees, newest first. A deleted message has no text, also if history does not know of
/// the deletion yet.
pub(crate) async fn page(
    host: &Host,
    (room_id, member_id): (i64, i64),
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<Stored>, Failure> {
    let db = host.store.db();
    let member = member::find(db, room_id, member_id).await?;
    let above = member.ok_or(Refusal::UnknownRoom)?.joined_seq;
    let mut messages = history::page(db, room_id, (above, before.unwrap_or(i64::MAX)), limit).await?;
    let with_text = messages.iter().filter(|message| message.body.is_some());
    let ids: Vec<i64> = with_text.map(|message| message.message_id).collect();
    if !ids.is_empty() {
        let deleted = entry::deleted_of(db, room_id, &ids).await?;
        let is_deleted = |message: &&mut Stored| deleted.contains(&message.message_id);
        messages
            .iter_mut()
            .filter(is_deleted)
            .for_each(|message| message.body = None);
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn entry(seq: i64, kind: Kind, message_id: i64, body: Option<&str>) -> Entry {
        Entry {
            room_id: 1,
            seq,
            kind,
            sender_id: 7,
            message_id: Some(message_id),
            member_id: None,
            client_msg_id: (kind == Kind::Message).then(|| format!("c-{seq}")),
            event_id: Uuid::nil(),
            body: body.map(str::to_owned),
            created_ms: 100 * seq,
        }
    }

    #[test]
    fn entries_make_messages_as_they_stand() {
        let entries = [
            entry(1, Kind::Message, 1, Some("a")),
            entry(2, Kind::Message, 2, None),
            entry(3, Kind::Edit, 1, Some("b")),
            entry(4, Kind::Delete, 2, None),
            entry(5, Kind::Edit, 1, Some("c")),
            entry(9, Kind::Edit, 8, Some("its first entry is gone")),
        ];
        let states = states(&entries);
        let short = |state: &Stored| (state.message_id, state.seq, state.body.clone(), state.edited_ms);
        assert_eq!(
            states.iter().map(short).collect::<Vec<_>>(),
            [(1, 5, Some("c".to_owned()), Some(500)), (2, 4, None, None)]
        );
        assert_eq!((states[0].sent_ms, states[0].client_msg_id.as_str()), (100, "c-1"));
    }
}
