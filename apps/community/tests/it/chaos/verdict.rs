//! What the database has when all is quiet: the truth that each client must have seen.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use std::collections::BTreeMap;

use postroom_testkit::wait::until;
use sea_orm::{ConnectionTrait, Statement};

use super::client::{Entry, Stream};
use super::{NOTIFIED, ROOMS, TALKING};
use crate::world::World;

/// The events of all streams that clients follow.
pub(super) struct Truth {
    members: BTreeMap<i64, Vec<Entry>>,
    rooms: BTreeMap<i64, Vec<Entry>>,
    /// The members of each room.
    followed: Vec<(i64, i64)>,
}

impl Truth {
    /// Waits until the workers have done everything, and reads it. So many messages were sent, and at least so many comments written.
    pub(super) async fn settled(world: &World, said: i64, confirmed: i64) -> Self {
        let comments = world.number("select count(*) as n from community_comment").await;
        assert!(
            comments >= confirmed && confirmed > 0,
            "{comments} of {confirmed} comments"
        );
        let told = comments + NOTIFIED.count() as i64; // each has voted
        let previews = said * (NOTIFIED.chain(TALKING).count() as i64 + TALKING.count() as i64) / ROOMS;
        for (what, expected) in [
            ("community_chat_send", said),
            ("community_chat_message", said),
            ("community_notification", told),
            ("community_member_event where name = 'notification'", told),
            ("community_member_event where name = 'chat'", previews),
        ] {
            let sql = format!("select count(*) as n from {what}");
            until(&format!("{expected} rows in {what}"), || async {
                world.number(&sql).await >= expected
            })
            .await;
            assert_eq!(world.number(&sql).await, expected, "{what}");
        }
        Self {
            members: entries(
                world,
                "select member_id as k, seq, event_id as id from community_member_event",
            )
            .await,
            rooms: entries(
                world,
                "select room_id as k, seq, event_id as id from community_chat_send",
            )
            .await,
            followed: followed(world).await,
        }
    }

    /// What a member has to see.
    pub(super) fn of(&self, member: i64) -> Vec<(Stream, &[Entry])> {
        if NOTIFIED.contains(&member) {
            return vec![(Stream::Member, self.members.get(&member).unwrap())];
        }
        let rooms = self.followed.iter().filter(|(_, id)| *id == member);
        rooms
            .map(|(room, _)| (Stream::Room(*room), self.rooms.get(room).unwrap().as_slice()))
            .collect()
    }
}

async fn entries(world: &World, select: &str) -> BTreeMap<i64, Vec<Entry>> {
    let mut streams: BTreeMap<i64, Vec<Entry>> = BTreeMap::new();
    let statement = Statement::from_string(
        world.fresh.db().get_database_backend(),
        format!("{select} order by k, seq"),
    );
    for row in world.fresh.db().query_all_raw(statement).await.unwrap() {
        let (seq, id) = (row.try_get("", "seq").unwrap(), row.try_get("", "id").unwrap());
        let stream = streams.entry(row.try_get("", "k").unwrap()).or_default();
        stream.push(Entry { seq, id });
    }
    streams
}

async fn followed(world: &World) -> Vec<(i64, i64)> {
    let select = "select room_id, member_id from community_room_member";
    let statement = Statement::from_string(world.fresh.db().get_database_backend(), select);
    let rows = world.fresh.db().query_all_raw(statement).await.unwrap();
    rows.iter()
        .map(|row| {
            (
                row.try_get("", "room_id").unwrap(),
                row.try_get("", "member_id").unwrap(),
            )
        })
        .collect()
}
