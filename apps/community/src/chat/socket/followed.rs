//! The rooms that one connection follows, and the frames of these rooms that it must not show. Pure.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

/// The rooms of one connection.
#[derive(Debug, Default)]
pub(super) struct Followed {
    rooms: HashSet<i64>,
    /// Rooms that the member has left while the connection followed them: frames up to this number are kept back.
    hidden: HashMap<i64, u64>,
}

/// The decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    /// The member may not see it.
    No,
    /// The frame tells that the member has left this room. It is the last frame of the room that the member sees.
    Last {
        room_id: i64,
    },
}

/// The part of a frame of a room that tells who may see it.
#[derive(Deserialize)]
struct Head<'a> {
    event: &'a str,
    #[serde(default)]
    seq: u64,
    data: Option<About>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    room_id: i64,
    member_id: Option<i64>,
}

/// The beginning of a frame that tells that a member has left.
const LEFT: &str = r#"{"event":"left""#;

impl Followed {
    /// Adds a room, unless the connection already follows `rooms_max` other rooms. The member sees the entries above `joined_seq`.
    pub(super) fn add(&mut self, room_id: i64, joined_seq: i64, rooms_max: usize) -> bool {
        let has_room = self.rooms.contains(&room_id) || self.rooms.len() < rooms_max;
        if has_room {
            self.rooms.insert(room_id);
            if let Some(hidden) = self.hidden.get_mut(&room_id) {
                *hidden = u64::try_from(joined_seq).unwrap_or_default();
            }
        }
        has_room
    }

    pub(super) fn remove(&mut self, room_id: i64) {
        self.rooms.remove(&room_id);
    }

    /// Decides about a frame. Most frames are not parsed for this.
    pub(super) fn judge(&mut self, frame: &str, member_id: i64) -> Shown {
        let is_left = frame.starts_with(LEFT);
        if !is_left && self.hidden.is_empty() {
            return Shown::Yes;
        }
        let Ok(Head {
            event,
            seq,
            data: Some(about),
        }) = serde_json::from_str(frame)
        else {
            return Shown::Yes; // no frame of a room
        };
        if self.hidden.get(&about.room_id).is_some_and(|hidden| seq <= *hidden) {
            return Shown::No;
        }
        if event == "left" && about.member_id == Some(member_id) {
            self.rooms.remove(&about.room_id);
            self.hidden.insert(about.room_id, u64::MAX);
            return Shown::Last { room_id: about.room_id };
        }
        Shown::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(event: &str, seq: u64, room_id: i64, member_id: i64) -> String {
        format!(
            r#"{{"event":"{event}","id":"x","seq":{seq},"data":{{"roomId":{room_id},"memberId":{member_id},"body":"\"left\""}}}}"#
        )
    }

    #[test]
    fn a_member_who_left_sees_nothing_more_of_the_room() {
        let mut followed = Followed::default();
        assert!(followed.add(1, 0, 9) && followed.add(2, 0, 9));
        assert_eq!(followed.judge(&frame("message", 4, 1, 7), 7), Shown::Yes);
        assert_eq!(followed.judge(&frame("left", 5, 1, 8), 7), Shown::Yes, "another member");
        assert_eq!(followed.judge(&frame("left", 6, 1, 7), 7), Shown::Last { room_id: 1 });
        assert_eq!(followed.judge(&frame("message", 7, 1, 8), 7), Shown::No);
        assert_eq!(
            followed.judge(&frame("message", 7, 2, 8), 7),
            Shown::Yes,
            "another room"
        );
        assert_eq!(followed.judge(r#"{"event":"ping"}"#, 7), Shown::Yes);

        assert!(followed.add(1, 9, 9), "the member was added again");
        assert_eq!(
            followed.judge(&frame("message", 9, 1, 8), 7),
            Shown::No,
            "said while the member was away"
        );
        assert_eq!(followed.judge(&frame("entered", 10, 1, 7), 7), Shown::Yes);
        assert_eq!(followed.judge(&frame("left", 11, 1, 7), 7), Shown::Last { room_id: 1 });
    }

    #[test]
    fn a_connection_follows_a_limited_number_of_rooms() {
        let mut followed = Followed::default();
        assert!(followed.add(1, 0, 2) && followed.add(2, 0, 2) && followed.add(1, 0, 2));
        assert!(!followed.add(3, 0, 2));
        followed.remove(1);
        assert!(followed.add(3, 0, 2));
    }
}
