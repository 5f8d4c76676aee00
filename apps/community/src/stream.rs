//! The stream of each member: one sequence of frames for notifications and chat, numbered without holes in the transaction that
//! makes them. All frames are appended here.

mod frames;
mod journal;
mod position;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;

use postroom::{Error, ErrorKind, Event, Result, Tx};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::events::{Addressed, Content, StreamAppended};
use crate::tables::now_ms;
pub(crate) use frames::told;
pub(crate) use journal::{MemberJournal, key, number};
pub(crate) use position::{Position, lock_one, look_one, store_one};
pub(crate) use retention::{prune_frames, prune_notifications};

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
    // It has texts of members, which may be deleted: it leaves the outbox without a copy.
    let event = Event::of(&appended(&new))?.unarchived();
    postroom::append(tx, &[event]).await?;
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

/// The event that tells of these frames. If several members get the same content, the event contains it once.
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

/// The data of a frame as clients get it: with its number and the unread notifications.
pub(crate) fn rendered(data: &str, seq: i64, unread: i64) -> Result<Box<RawValue>> {
    let fields = data.trim_end().strip_suffix('}').unwrap_or_default();
    let comma = if fields.trim_end().ends_with('{') { "" } else { "," };
    let text = format!("{fields}{comma}\"seq\":{seq},\"unread\":{unread}}}");
    Ok(RawValue::from_string(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(member_id: i64) -> StreamEvent {
        StreamEvent {
            member_id,
            event_id: Uuid::now_v7(),
            name: CHAT,
            data: RawValue::from_string("{}".to_owned()).unwrap().into(),
            is_notification: false,
        }
    }

    #[test]
    fn the_number_and_the_unread_are_the_last_fields() {
        let check = |data: &str, expected: &str| assert_eq!(rendered(data, 7, 3).unwrap().get(), expected);
        check(
            r#"{"id":1,"message":"}"}"#,
            r#"{"id":1,"message":"}","seq":7,"unread":3}"#,
        );
        check("{}", r#"{"seq":7,"unread":3}"#);
        check("{ } ", r#"{ "seq":7,"unread":3}"#);
        assert!(rendered("", 7, 3).is_err());
    }

    #[test]
    fn frames_are_appended_for_so_many_members_at_once() {
        let events: Vec<StreamEvent> = (0..250).flat_map(|member| [event(member), event(member)]).collect();
        let events: Vec<&StreamEvent> = events.iter().collect();
        let parts: Vec<usize> = by_members(&events).iter().map(|part| part.len()).collect();
        assert_eq!(parts, [200, 200, 100]);
    }

    #[test]
    fn what_several_members_get_is_told_once_and_what_is_muted_is_not_told() {
        let told = event(1);
        let again = StreamEvent {
            member_id: 2,
            ..told.clone()
        };
        let muted = StreamEvent {
            member_id: 3,
            ..told.clone()
        };
        let appended_for = |member_id, is_silent| Appended {
            member_id,
            event_id: told.event_id,
            seq: 1,
            unread: 0,
            is_silent,
        };
        let frames = [
            (&told, appended_for(1, false)),
            (&again, appended_for(2, false)),
            (&muted, appended_for(3, true)),
        ];
        let event = appended(&frames);
        assert_eq!(event.contents.len(), 1);
        let contents: Vec<Option<usize>> = event.frames.iter().map(|frame| frame.content).collect();
        assert_eq!(contents, [Some(0), Some(0), None]);
    }
}
