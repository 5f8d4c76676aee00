//! The streams of members as the hub reads them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Inspect, Result, clock};
use postroom_realtime::{Frame, Journal, Opening, StreamKey};
use sea_orm::DatabaseConnection;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use time::OffsetDateTime;
use uuid::Uuid;

use super::frames::{self, Stored};
use super::position::{self, Position};
use super::{NOTIFICATION, rendered};
use crate::notification::Data;
use crate::tables::notification::{self, Notification};

/// Unread notifications that a connection gets first, at most, if it cannot resume.
const LATEST: u64 = 10;
/// Streams in one query for their newest numbers.
const TOPS_MAX: usize = 500;

/// The journal of the streams `member/42`. It reads nothing before a process has given it a store.
#[derive(Clone, Debug)]
pub(crate) struct MemberJournal {
    store: Arc<OnceLock<Arc<dyn Inspect>>>,
    /// How long frames are kept at most.
    kept: Duration,
}

/// Where a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// Exactly after the frame with this number.
    After(i64),
    /// At the newest frame, because the connection cannot resume.
    Anew(Why),
}

/// Why a connection cannot resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    /// The client has seen nothing yet.
    NoCursor,
    /// No frame of the stream has this id. It may be the id of another member's frame; the answer does not tell.
    UnknownCursor,
    /// Frames after it were removed.
    Expired,
}

/// The data of the event `reset`.
#[derive(Serialize)]
struct Reset {
    reason: Why,
    unread: i64,
    top: i64,
}

impl MemberJournal {
    pub(crate) fn new(kept: Duration) -> Self {
        Self {
            store: Arc::default(),
            kept,
        }
    }

    /// Reads from this store. A journal that has one keeps it.
    pub(crate) fn read_from(&self, store: &Arc<dyn Inspect>) {
        self.store.get_or_init(|| Arc::clone(store));
    }

    fn db(&self) -> Result<&DatabaseConnection> {
        let store = self.store.get().ok_or_else(|| {
            let says = "streams are read when the process runs";
            Error::new(ErrorKind::Unavailable, says)
        })?;
        Ok(store.db())
    }

    /// Where the connection of a member begins. The row was read first, so every frame up to its number can be read.
    async fn begin(&self, position: &Position, cursor: Option<&str>) -> Result<Begin> {
        let seq = match cursor.map(Cursor::parse) {
            None => return Ok(Begin::Anew(Why::NoCursor)),
            Some(Cursor::Odd) => return Ok(Begin::Anew(Why::UnknownCursor)),
            Some(Cursor::Number(seq)) => seq,
            Some(Cursor::Event(id)) => {
                let text = id.to_string();
                let found = frames::seqs(self.db()?, position.member_id, [text.as_str()]).await?;
                match found.get(&text) {
                    Some(seq) => *seq,
                    None if self.is_old(id) => return Ok(Begin::Anew(Why::Expired)),
                    None => return Ok(Begin::Anew(Why::UnknownCursor)),
                }
            }
        };
        Ok(match seq {
            seq if seq > position.seq => Begin::Anew(Why::UnknownCursor),
            seq if seq < position.pruned_seq => Begin::Anew(Why::Expired),
            seq => Begin::After(seq),
        })
    }

    /// Whether a frame with this id would have been removed. The id itself says when it was made.
    fn is_old(&self, id: Uuid) -> bool {
        let made = id.get_timestamp().and_then(|at| {
            let (seconds, _) = at.to_unix();
            OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).ok()?).ok()
        });
        made.is_some_and(|made| clock::now() - made > self.kept)
    }

    /// The latest unread notifications, oldest first, behind a frame that says why they come. A member who has muted notifications
    /// gets none.
    async fn anew(&self, position: &Position, why: Why) -> Result<Opening> {
        let reset = Reset {
            reason: why,
            unread: position.unread,
            top: position.seq,
        };
        let reset = to_raw_value(&reset).map_err(Error::from)?;
        let top = position.seq.to_string();
        let mut first = vec![Frame::new(0, &top, "reset", &reset)];
        if !position.is_muted {
            first.extend(self.latest_unread(position).await?);
        }
        Ok(Opening {
            first,
            after: number(position.seq),
            // The ids of these notifications are older than this number, so the client gets the number as its cursor.
            cursor: Some(top),
        })
    }

    async fn latest_unread(&self, position: &Position) -> Result<Vec<Frame>> {
        let db = self.db()?;
        let mut latest = notification::latest_unread(db, position.member_id, LATEST).await?;
        latest.reverse();
        let seqs = frames::seqs(db, position.member_id, latest.iter().map(|one| one.event_id.as_str())).await?;
        // One that was made after the position was read comes as a frame of its own.
        let known = latest.iter().filter_map(|one| Some((one, *seqs.get(&one.event_id)?)));
        let known = known.filter(|(_, seq)| *seq <= position.seq);
        known.map(|(one, seq)| frame_of(one, seq, position.unread)).collect()
    }
}

/// The last frame that a client has seen, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cursor {
    /// An event.
    Event(Uuid),
    /// A number of the stream.
    Number(i64),
    /// Neither.
    Odd,
}

impl Cursor {
    fn parse(text: &str) -> Self {
        match (Uuid::try_parse(text), text.parse()) {
            (Ok(id), _) => Self::Event(id),
            (_, Ok(seq @ 0..)) => Self::Number(seq),
            _ => Self::Odd,
        }
    }
}

fn frame_of(notification: &Notification, seq: i64, unread: i64) -> Result<Frame> {
    let data = Data {
        id: notification.notification_id,
        kind: &notification.kind,
        message: &notification.message,
        ref_id: notification.ref_id,
        actor_id: notification.actor_id,
    };
    let data = rendered(data.encode()?.get(), seq, unread)?;
    Ok(Frame::new(number(seq), &notification.event_id, NOTIFICATION, &data))
}

/// The stream of a member.
pub(crate) fn key(member_id: i64) -> StreamKey {
    StreamKey::new(format!("member/{member_id}"))
}

fn member(stream: &StreamKey) -> Result<i64> {
    let id = stream.as_str().strip_prefix("member/").and_then(|id| id.parse().ok());
    id.ok_or_else(|| Error::invalid(format!("{stream} is no stream of a member")))
}

/// Numbers of streams begin at 1.
pub(crate) fn number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}

#[async_trait]
impl Journal for MemberJournal {
    async fn open(&self, stream: &StreamKey, cursor: Option<&str>) -> Result<Opening> {
        let position = position::look_one(self.db()?, member(stream)?).await?;
        match self.begin(&position, cursor).await? {
            Begin::After(seq) => Ok(Opening::new(Vec::new(), number(seq))),
            Begin::Anew(why) => self.anew(&position, why).await,
        }
    }

    async fn read(&self, stream: &StreamKey, after: u64, max: usize) -> Result<Vec<Frame>> {
        let position = position::look_one(self.db()?, member(stream)?).await?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let range = (after, position.seq);
        let stored = frames::between(self.db()?, position.member_id, range, max as u64).await?;
        stored.iter().map(|stored| frame(stored, &position)).collect()
    }

    async fn tops(&self, streams: &[StreamKey]) -> Result<Vec<u64>> {
        let members = streams.iter().map(member).collect::<Result<Vec<i64>>>()?;
        let mut tops = std::collections::HashMap::new();
        for members in members.chunks(TOPS_MAX) {
            let positions = position::look(self.db()?, members).await?;
            tops.extend(positions.into_iter().map(|position| (position.member_id, position.seq)));
        }
        let top = |member: &i64| number(tops.get(member).copied().unwrap_or(0));
        Ok(members.iter().map(top).collect())
    }
}

/// A stored frame as the member sees it now: if the member has muted notifications meanwhile, a notification is silent.
fn frame(stored: &Stored, position: &Position) -> Result<Frame> {
    let seq = number(stored.seq);
    if stored.is_silent || (position.is_muted && stored.name == NOTIFICATION) {
        return Ok(Frame::silent(seq));
    }
    let data: Box<RawValue> = rendered(&stored.data, stored.seq, position.unread)?;
    Ok(Frame::new(seq, &stored.event_id, &stored.name, &data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_an_event_or_a_number() {
        let id = Uuid::now_v7();
        let check = |text: &str, expected| assert_eq!(Cursor::parse(text), expected, "{text}");
        check(&id.to_string(), Cursor::Event(id));
        check("0", Cursor::Number(0));
        check("17", Cursor::Number(17));
        for odd in ["", "-1", "1.5", "17 or 1=1", "9223372036854775808", "안녕"] {
            check(odd, Cursor::Odd);
        }
    }

    #[test]
    fn an_id_says_by_itself_whether_its_frame_was_removed() {
        let journal = MemberJournal::new(Duration::from_secs(60));
        assert!(!journal.is_old(Uuid::now_v7()));
        let old = uuid::Timestamp::from_unix(uuid::NoContext, 1_700_000_000, 0);
        assert!(journal.is_old(Uuid::new_v7(old)));
        assert!(!journal.is_old(Uuid::from_u128(7)), "it has no time");
    }
}
