//! Reads the streams of rooms from the database, for connections that resume and for repairs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Inspect, Result};
use postroom_realtime::{Frame, Journal, Opening, StreamKey};
use sea_orm::DatabaseConnection;
use serde_json::json;

use super::frame;
use super::tables::entry;
use super::tables::room::{self, Room};

/// Entries in the first read of a connection; the hub reads the rest.
const FIRST_MAX: u64 = 256;

/// The streams of rooms. The socket checks whether a member may follow a room; this journal does not.
#[derive(Debug, Default)]
pub(crate) struct Rooms(OnceLock<Arc<dyn Inspect>>);

impl Rooms {
    /// Sets its store, when the process runs.
    pub(crate) fn fill(&self, store: Arc<dyn Inspect>) {
        drop(self.0.set(store)); // a second one is the same
    }

    fn db(&self) -> Result<&DatabaseConnection> {
        let missing = || Error::new(ErrorKind::Unavailable, "the streams of rooms have no store yet");
        self.0.get().map(|store| store.db()).ok_or_else(missing)
    }
}

/// The place where a client continues in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// After this number.
    After(i64),
    /// After the last entry, because the client's number cannot be used.
    Reset { after: i64, reason: &'static str },
}

impl Start {
    /// `cursor` is the last number that the client has. Without a cursor, the client begins with the next entry.
    fn of(room: &Room, cursor: Option<i64>) -> Self {
        let reset = |reason: &'static str| Self::Reset {
            after: room.seq,
            reason,
        };
        match cursor {
            None => Self::After(room.seq),
            Some(cursor) if cursor > room.seq || cursor < 0 => reset("unknown_cursor"),
            Some(cursor) if cursor < room.horizon => reset("expired"),
            Some(cursor) => Self::After(cursor),
        }
    }
}

/// Tells a client that it follows a room now, after this number.
fn joined(room_id: i64, seq: i64) -> Frame {
    Frame::reply(json!({ "event": "joined", "roomId": room_id, "seq": seq }).to_string())
}

/// Tells a client that its number cannot be used: the client loads the room again, and continues after `seq`.
fn reset(room_id: i64, seq: i64, reason: &str) -> Frame {
    Frame::reply(json!({ "event": "reset", "roomId": room_id, "seq": seq, "reason": reason }).to_string())
}

#[async_trait]
impl Journal for Rooms {
    async fn open(&self, stream: &StreamKey, cursor: Option<&str>) -> Result<Opening> {
        let db = self.db()?;
        let room_id = room_id(stream)?;
        let cursor = cursor.map(|cursor| cursor.parse().unwrap_or(-1));
        // The entries are read before the horizon: if it has not passed the cursor by then, none of them is missing.
        let entries = match cursor {
            Some(cursor) if cursor >= 0 => entry::after(db, room_id, cursor, FIRST_MAX).await?,
            _ => Vec::new(),
        };
        let room = room::find(db, room_id).await?.ok_or_else(|| unknown(stream))?;
        match Start::of(&room, cursor) {
            Start::After(after) => {
                let mut first = vec![joined(room_id, after)];
                for entry in &entries {
                    first.push(frame::of_room(entry)?);
                }
                let last = entries.last().map_or(after, |entry| entry.seq);
                Ok(Opening::new(first, number(last)))
            }
            Start::Reset { after, reason } => {
                let first = vec![reset(room_id, after, reason), joined(room_id, after)];
                Ok(Opening::new(first, number(after)))
            }
        }
    }

    async fn read(&self, stream: &StreamKey, after: u64, max: usize) -> Result<Vec<Frame>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let entries = entry::after(self.db()?, room_id(stream)?, after, max as u64).await?;
        entries.iter().map(frame::of_room).collect()
    }

    async fn tops(&self, streams: &[StreamKey]) -> Result<Vec<u64>> {
        let room_ids: Vec<i64> = streams.iter().filter_map(frame::room_of).collect();
        let tops: HashMap<i64, i64> = room::tops(self.db()?, &room_ids).await?.into_iter().collect();
        let top = |stream: &StreamKey| frame::room_of(stream).and_then(|room_id| tops.get(&room_id));
        Ok(streams
            .iter()
            .map(|stream| number(top(stream).copied().unwrap_or_default()))
            .collect())
    }
}

fn room_id(stream: &StreamKey) -> Result<i64> {
    frame::room_of(stream).ok_or_else(|| unknown(stream))
}

fn unknown(stream: &StreamKey) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no stream {stream}"))
}

fn number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_goes_on_where_it_was_or_is_told_that_it_cannot() {
        let room = Room {
            room_id: 1,
            name: "r".to_owned(),
            owner_id: 1,
            seq: 50,
            horizon: 20,
            last_ms: 0,
        };
        let check = |cursor: Option<i64>, expected: Start| assert_eq!(Start::of(&room, cursor), expected, "{cursor:?}");
        let reset = |reason: &'static str| Start::Reset { after: 50, reason };
        check(None, Start::After(50));
        check(Some(50), Start::After(50));
        check(Some(20), Start::After(20));
        check(Some(19), reset("expired"));
        check(Some(0), reset("expired"));
        check(Some(51), reset("unknown_cursor"));
        check(Some(-1), reset("unknown_cursor"));
    }
}
