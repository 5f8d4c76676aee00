//! `chat_fanout`: brings the entries of rooms to the members who are connected.
//!
//! The frames of the rooms are published to all instances; that is best effort, because connections read from the database what they
//! miss. The `chat` frames of the members' own streams are rows, appended in the transaction of the worker. History is not needed
//! for either.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::{BatchHandler, BoxError, Event, Result, Tx};
use postroom_realtime::Hub;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::domain::Kind;
use super::frame;
use super::tables::entry::{self, Entry};
use super::tables::member::{self, Membership};
use super::tables::{by_room, preview};
use crate::stream::{self, CHAT, StreamEvent};

/// How long publishing may take. The transaction of the worker is open meanwhile.
const PUBLISH_TIME_MAX: Duration = Duration::from_secs(1);

/// The worker.
#[derive(Debug)]
pub(crate) struct FanOut {
    hub: Hub,
}

/// Fields that all events of a room share.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbered {
    room_id: i64,
    seq: i64,
}

impl FanOut {
    pub(crate) fn new(hub: Hub) -> Self {
        Self { hub }
    }

    /// Publishes the frames of rooms. An instance that does not get one reads it from the database within seconds.
    async fn publish(&self, entries: &[Entry]) -> Result<()> {
        let frame = |entry: &Entry| Ok((frame::stream(entry.room_id), frame::of_room(entry)?));
        let frames = entries.iter().map(frame).collect::<Result<Vec<_>>>()?;
        match timeout(PUBLISH_TIME_MAX, self.hub.publish(&frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = error.report(), "frames of rooms were not published"),
            Err(_elapsed) => tracing::debug!("publishing frames of rooms took too long"),
        }
        Ok(())
    }
}

impl BatchHandler for FanOut {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        let numbered: Vec<Numbered> = events.iter().map(|event| event.decode()).collect::<Result<_>>()?;
        let seqs = by_room(numbered.into_iter().map(|one| (one.room_id, one.seq)));
        // As they are now, not as they were when the events were emitted: a text that was deleted meanwhile is not shown.
        let entries = entry::numbered(tx, &seqs).await?;
        self.publish(&entries).await?;
        let members = member::of_rooms(tx, seqs.keys().copied()).await?;
        stream::append(tx, &previews(&entries, &members)?).await?;
        for deleted in entries.iter().filter(|entry| entry.kind == Kind::Delete) {
            preview::erase(tx, deleted).await?;
        }
        Ok(())
    }
}

/// The `chat` frames of these entries: for those who are in the room now and were when the entry was made, but not for its sender.
fn previews(entries: &[Entry], members: &BTreeMap<i64, Vec<Membership>>) -> Result<Vec<StreamEvent>> {
    let mut previews = Vec::new();
    for entry in entries {
        let Some(content) = frame::of_member(entry)? else {
            continue;
        };
        let content: Arc<RawValue> = content.into();
        let sees = |member: &&Membership| member.member_id != entry.sender_id && member.joined_seq < entry.seq;
        let preview = |member: &Membership| StreamEvent {
            member_id: member.member_id,
            event_id: entry.event_id,
            name: CHAT,
            data: Arc::clone(&content),
            is_notification: false,
        };
        let members = members.get(&entry.room_id).into_iter().flatten();
        previews.extend(members.filter(sees).map(preview));
    }
    Ok(previews)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn members_who_were_there_get_an_entry_and_its_sender_does_not() {
        let member = |member_id, joined_seq| Membership {
            member_id,
            joined_seq,
            joined_ms: 0,
        };
        let members = BTreeMap::from([(1, vec![member(7, 0), member(8, 0), member(9, 5)])]);
        let entry = |seq, kind, message_id| Entry {
            room_id: 1,
            seq,
            kind,
            sender_id: 7,
            message_id,
            member_id: None,
            client_msg_id: None,
            event_id: Uuid::from_u128(seq as u128),
            body: Some("a".to_owned()),
            created_ms: 0,
        };
        let entries = [
            entry(5, Kind::Message, Some(5)),
            entry(6, Kind::Enter, None),
            entry(7, Kind::Edit, Some(5)),
        ];
        let got = previews(&entries, &members).unwrap();
        let got: Vec<_> = got.iter().map(|one| (one.event_id.as_u128(), one.member_id)).collect();
        assert_eq!(got, [(5, 8), (7, 8), (7, 9)]);
    }
}
