//! The stream of each member: one sequence of frames for notifications and chat, numbered without holes in the transaction that
//! makes them. Whoever appends, appends here.

mod frames;
mod position;

use std::collections::HashSet;
use std::sync::Arc;

use postroom::{Error, ErrorKind, Result, Tx, emit};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::events::{Addressed, Content, StreamAppended};
use crate::tables::now_ms;
use position::Position;

/// Frames of notifications, which members can mute.
pub(crate) const NOTIFICATION: &str = "notification";
/// Frames of chat.
pub(crate) const CHAT: &str = "chat";
/// Frames that say that the number of unread notifications has changed without a notification.
pub(crate) const UNREAD: &str = "unread";

/// Members whose frames are appended together: their rows are locked at once, and one event tells of them.
const MEMBERS_MAX: usize = 100;
/// Bytes of one frame's data.
const DATA_BYTES_MAX: usize = 16_000;

/// A frame to append to the stream of a member.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    /// The member.
    pub(crate) member_id: i64,
    /// The event of which it tells. A stream has one frame for each event.
    pub(crate) event_id: Uuid,
    /// The name of the frame: [`NOTIFICATION`], [`CHAT`] or [`UNREAD`].
    pub(crate) name: &'static str,
    /// A JSON object. `seq` and `unread` are added to it on the way out.
    pub(crate) data: Arc<RawValue>,
    /// Whether it is one more unread notification of the member. The caller stores the notification in the same transaction.
    pub(crate) is_notification: bool,
}

/// A frame that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The member.
    pub(crate) member_id: i64,
    /// The event.
    pub(crate) event_id: Uuid,
    /// Its number in the stream of the member: 1, 2, 3, without holes.
    pub(crate) seq: i64,
    /// The unread notifications of the member after it.
    pub(crate) unread: i64,
    /// Whether it is only counted and not shown, because the member has muted notifications.
    pub(crate) is_silent: bool,
}

/// Appends frames to the streams of their members, in this order for each member, and emits [`StreamAppended`], so that open
/// connections get them after the commit. A frame of an event that a stream has already is left out. The rows of the members stay
/// locked until the transaction ends; they are locked in the order of the members' ids.
///
/// A transaction that calls this more than once, or locks streams beside it, must keep to that order: pass all frames at once.
pub(crate) async fn append(tx: &Tx, events: &[StreamEvent]) -> Result<Vec<Appended>> {
    check(events)?;
    let mut events: Vec<&StreamEvent> = events.iter().collect();
    events.sort_by_key(|event| event.member_id); // stable: the order for each member stays
    let mut appended = Vec::with_capacity(events.len());
    for part in by_members(&events) {
        appended.extend(append_part(tx, part).await?);
    }
    Ok(appended)
}

fn check(events: &[StreamEvent]) -> Result<()> {
    for event in events {
        let data = event.data.get();
        if !data.starts_with('{') || data.len() > DATA_BYTES_MAX {
            let says = format!("the data of a frame must be a JSON object of at most {DATA_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, says));
        }
    }
    Ok(())
}

/// Cuts frames, which are sorted by members, after every [`MEMBERS_MAX`] members.
fn by_members<'e>(events: &'e [&'e StreamEvent]) -> Vec<&'e [&'e StreamEvent]> {
    let of_members: Vec<_> = events.chunk_by(|one, next| one.member_id == next.member_id).collect();
    let lengths = of_members
        .chunks(MEMBERS_MAX)
        .map(|members| members.iter().map(|member| member.len()).sum());
    let mut rest = events;
    lengths
        .filter_map(|length: usize| {
            let (part, others) = rest.split_at_checked(length)?;
            rest = others;
            Some(part)
        })
        .collect()
}

async fn append_part(tx: &Tx, events: &[&StreamEvent]) -> Result<Vec<Appended>> {
    let mut members: Vec<i64> = events.iter().map(|event| event.member_id).collect();
    members.dedup();
    let mut positions = position::lock(tx, &members).await?;
    let mut known = frames::known(tx, &members, events).await?;
    let mut new = Vec::with_capacity(events.len());
    for event in events {
        if !known.insert((event.member_id, event.event_id)) {
            continue;
        }
        let position = positions.get_mut(&event.member_id).ok_or_else(unlocked)?;
        new.push((*event, position.advance(event)));
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    frames::insert(tx, &new, now_ms()).await?;
    position::store(tx, positions.values()).await?;
    emit(tx, &appended(&new)).await?;
    Ok(new.into_iter().map(|(_, appended)| appended).collect())
}

fn unlocked() -> Error {
    Error::new(ErrorKind::Failed, "the stream of a member was not locked")
}

impl Position {
    /// The next frame of the stream.
    fn advance(&mut self, event: &StreamEvent) -> Appended {
        self.seq += 1;
        self.unread += i64::from(event.is_notification);
        Appended {
            member_id: event.member_id,
            event_id: event.event_id,
            seq: self.seq,
            unread: self.unread,
            is_silent: self.is_muted && event.name == NOTIFICATION,
        }
    }
}

/// The event that tells of these frames. What several members get is in it once.
fn appended(frames: &[(&StreamEvent, Appended)]) -> StreamAppended {
    let mut contents: Vec<Content> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut addressed = Vec::with_capacity(frames.len());
    for (event, appended) in frames {
        let content = (!appended.is_silent).then(|| {
            *places
                .entry((event.event_id, event.name, event.data.get()))
                .or_insert_with(|| {
                    contents.push(Content {
                        event_id: event.event_id,
                        name: event.name.to_owned(),
                        data: event.data.get().to_owned(),
                    });
                    contents.len() - 1
                })
        });
        addressed.push(Addressed {
            member_id: appended.member_id,
            seq: appended.seq,
            unread: appended.unread,
            content,
        });
    }
    StreamAppended {
        contents,
        frames: addressed,
    }
}

/// The pairs of members and events that streams have.
type Known = HashSet<(i64, Uuid)>;
